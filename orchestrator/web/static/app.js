// The page: an answer as it comes, its rounds, what was asked before, and traces that were saved.

import { Answer } from "./answer.js";
import { CallError, generate, get } from "./api.js";
import { alone, compared } from "./comparing.js";
import { details, table } from "./details.js";
import { Progress, figures, sumsOf } from "./figures.js";
import { allRight, request as asked, wrong } from "./form.js";
import { Lanes } from "./lanes.js";
import { Saved, parse, spansOf } from "./otlp.js";
import { at, describe, made, short } from "./page.js";
import { rows } from "./recent.js";
import { Request, requestsOf } from "./trace.js";

const key = () => at("key").value.trim();
let running = null; // what stops the answer that is being made
let last = null; // the last complete answer: what was asked, seed, ids, figures
let shown = { request: null, text: () => "", name: "" }; // what is in view, and how it is saved
let answer = new Answer(at("answer"));
let due = 0; // the next drawing of an answer that is being made
const DRAW_MS = 120; // between two of them: the models may share this machine

const lanes = new Lanes(at("lanes"), choose, (place) => { at("zoom").value = place; });

function status(words, isWrong = false) {
  at("status").textContent = words;
  at("status").classList.toggle("error", isWrong);
}

function failed(error) {
  if (error.name === "AbortError") return status("Stopped.");
  status(error instanceof CallError ? `${error.code}: ${error.words}` : error.message, true);
  if (error.field) wrong(error.field);
}

function choose(request, round) {
  at("details").replaceChildren(...details(request, round));
  answer.mark(round.id);
}

// Something else comes into view.
function view(request, text, name) {
  shown = { request, text, name };
  answer = new Answer(at("answer"));
  for (const id of ["details", "comparison", "figures"]) at(id).replaceChildren();
  at("several").hidden = true;
  at("compare").disabled = true;
  last = null;
  draw(false);
}

function draw(live) {
  clearTimeout(due);
  due = 0;
  lanes.show(shown.request, live);
  at("save").disabled = !shown.request?.rounds.length;
  if (at("all").open) at("all").querySelector("table").replaceChildren(...table(shown.request ?? new Request()));
}

// Make one answer and show it as it comes. Resolves to all that is known of it when it is complete.
async function make(body) {
  const one = { body, seed: "", session: "", ids: [], text: "", progress: new Progress(performance.now()), request: new Request(), saved: new Saved() };
  let told = 0;
  try {
    for await (const { name, data } of generate(body, key(), running.signal)) {
      if (name === "started") {
        [one.seed, one.session] = [data.seed, data.session_id];
        view(one.request, () => one.saved.text, one.session);
      }
      if (name === "delta") delta(one, data);
      if (name === "spans") {
        one.saved.add([data]);
        one.request.add(spansOf([data]));
        while (told < one.request.rounds.length) answer.round(one.request.rounds[told++]);
      }
      due ||= setTimeout(() => progress(one, true), DRAW_MS);
    }
  } finally {
    answer.finish();
    progress(one, false);
  }
  one.sums = sums(one);
  return one;
}

function delta(one, data) {
  one.ids.push(...data.token_ids);
  one.text += data.text;
  one.progress.delta(data, performance.now());
  if (one.request.phases.length) answer.text(data.text);
  else answer.plain(data.text); // nothing is recorded here
}

const sums = ({ request, progress }) => (request.rounds.length ? sumsOf(request) : progress.sums);

function progress(one, live) {
  draw(true);
  if (one.ids.length || !live) describe(at("figures"), figures(sums(one)));
}

async function during(words, work) {
  if (running) return;
  running = new AbortController();
  at("stop").disabled = false;
  for (const id of ["send", "compare", "open", "refresh"]) at(id).disabled = true;
  status(words);
  allRight();
  try {
    await work();
  } catch (error) {
    failed(error);
  }
  running = null;
  at("stop").disabled = true;
  for (const id of ["send", "open", "refresh"]) at(id).disabled = false;
  at("compare").disabled = last === null;
  if (document.activeElement === document.body) at("send").focus(); // a button that is off cannot keep the focus
  refresh();
}

async function send() {
  const body = asked();
  await during("The answer is being made.", async () => {
    view(null, () => "", "");
    const one = await make(body);
    last = body.speculation.mode === "SPECULATION_MODE_OFF" ? null : one;
    const lost = one.request.rounds.length ? "" : " Its rounds are not recorded here (OUTRIDER_RECENT_REQUESTS).";
    status(`The answer is complete: ${one.ids.length} tokens in ${one.sums.rounds} rounds, ${one.sums.perSecond.toFixed(1)} tokens/s, seed ${one.seed}.${lost}`);
  });
}

// The second answer is shown as it comes, as the first was, so that the page takes as much time for both.
async function compare() {
  const one = last;
  await during("The target answers the same alone.", async () => {
    let words = "";
    try {
      words = compared(one, await make(alone(one.body, one.seed)));
      status("Compared with the target alone.");
    } finally {
      back(one);
      at("comparison").textContent = words;
    }
  });
}

// An answer that was shown before.
function back(one) {
  view(one.request, () => one.saved.text, one.session);
  for (const round of one.request.rounds) answer.round(round);
  if (one.request.rounds.length) answer.text(one.text);
  else answer.plain(one.text);
  answer.finish();
  describe(at("figures"), figures(one.sums));
  last = one;
}

async function refresh() {
  try {
    const { requests } = JSON.parse(await get("api/requests", key()));
    at("recent").replaceChildren(...rows(requests, (id) => open(() => get(`api/requests/${encodeURIComponent(id)}`, key()), "the request")));
  } catch (error) {
    at("recent").replaceChildren(made("tr", {}, made("td", { colSpan: 8 }, error.words ?? error.message)));
  }
}

// Show a trace: the text of a file or of a request that is remembered.
async function open(read, what) {
  try {
    const text = await read(), requests = requestsOf(spansOf(parse(text)));
    if (!requests.length) throw new Error(`${what} holds no request of an orchestrator`);
    one(requests.at(-1), text, what);
    at("several").hidden = requests.length < 2;
    at("which").replaceChildren(...requests.map((_, place) => made("option", { value: place }, `${place + 1} of ${requests.length}`)));
    at("which").value = requests.length - 1;
    at("which").onchange = () => {
      one(requests[at("which").value], text, what);
      at("several").hidden = false;
    };
  } catch (error) {
    failed(error);
  }
}

function one(request, text, what) {
  view(request, () => text, request.root?.trace ?? "trace");
  for (const round of request.rounds) answer.told(round);
  answer.finish();
  describe(at("figures"), figures(sumsOf(request)));
  const outcome = request.root?.said.outcome, error = request.root?.error;
  status(`${what[0].toUpperCase()}${what.slice(1)} is open: ${request.rounds.length} rounds${outcome ? `, ended with ${outcome}` : ""}${error ? `: ${error}` : ""}.`);
}

function save() {
  const link = made("a", { href: URL.createObjectURL(new Blob([shown.text()], { type: "application/json" })) });
  link.download = `outrider-${shown.name.slice(0, 16)}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function who() {
  try {
    const { target, draft, max_draft_tokens: most } = JSON.parse(await get("api/info", key()));
    const name = (replica, none) => {
      if (!replica?.info) return none;
      return replica.state === "REPLICA_STATE_READY" ? short(replica.info.model_id) : `${short(replica.info.model_id)} (not in use: ${replica.reason})`;
    };
    at("serving").textContent = `target ${name(target, "none")}; draft ${name(draft, "none")}; up to ${most} draft tokens a round`;
  } catch (error) {
    at("serving").textContent = error.words ?? error.message;
  }
}

const opened = (file) => file && !running && open(() => file.text(), file.name);

at("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
at("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") running?.abort(); });
at("stop").addEventListener("click", () => running?.abort());
at("compare").addEventListener("click", compare);
at("refresh").addEventListener("click", () => { who(); refresh(); });
at("save").addEventListener("click", save);
at("open").addEventListener("change", (event) => { opened(event.target.files[0]); event.target.value = ""; });
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => { event.preventDefault(); opened(event.dataTransfer.files[0]); });
at("mode").addEventListener("change", () => { at("k").disabled = at("mode").value !== "FIXED"; });
at("rejected").addEventListener("change", (event) => at("answer").classList.toggle("show-rejected", event.target.checked));
at("zoom").addEventListener("input", (event) => lanes.zoom(Number(event.target.value)));
at("fit").addEventListener("click", () => lanes.fit());
at("all").addEventListener("toggle", () => draw(false));
at("key").addEventListener("change", () => { who(); refresh(); });
who();
refresh();
