// The page: what can be done on it, and what is said of that.

import { CallError, get } from "./api.js";
import { alone, compared } from "./comparing.js";
import { allRight, request, wrong } from "./form.js";
import { back, make } from "./making.js";
import { at, made, short } from "./page.js";
import { rows } from "./recent.js";
import { View } from "./view.js";

const view = new View();
const key = () => at("key").value.trim();
let running = null; // what stops the answer that is being made
let last = null; // the answer in view, where it can be compared

function status(words, isWrong = false) {
  at("status").textContent = words;
  at("status").classList.toggle("error", isWrong);
}

function failed(error) {
  if (error.name === "AbortError") return status("Stopped.");
  status(error instanceof CallError ? `${error.code}: ${error.words}` : error.message, true);
  if (error.field) wrong(error.field);
}

function comparable(one) {
  last = one;
  at("compare").disabled = one === null;
}

// While an answer is made nothing else can be asked for.
async function during(words, work) {
  if (running) return;
  const others = ["send", "open", "refresh", "compare", "which"];
  running = new AbortController();
  for (const id of others) at(id).disabled = true;
  at("stop").disabled = false;
  status(words);
  allRight();
  try {
    await work();
  } catch (error) {
    failed(error);
  }
  running = null;
  at("stop").disabled = true;
  for (const id of others) at(id).disabled = false;
  comparable(last);
  if (document.activeElement === document.body) at("send").focus(); // a button that is off cannot keep the focus
  refresh();
}

async function send() {
  const body = request();
  await during("The answer is being made.", async () => {
    last = null;
    view.clear();
    const one = await make(body, key(), running.signal, view), { ids, sums, seed } = one;
    last = body.speculation.mode === "SPECULATION_MODE_OFF" ? null : one;
    const lost = one.request.rounds.length ? "" : " Its rounds are not recorded here (OUTRIDER_RECENT_REQUESTS).";
    status(`The answer is complete: ${ids.length} tokens in ${sums.rounds} rounds, ${sums.perSecond.toFixed(1)} tokens/s, seed ${seed}.${lost}`);
  });
}

// The second answer is shown as it comes, as the first was, so that the page takes as much time for both.
async function compare() {
  const one = last;
  await during("The target answers the same alone.", async () => {
    let words = "";
    try {
      words = compared(one, await make(alone(one.body, one.seed), key(), running.signal, view));
      status("Compared with the target alone.");
    } finally {
      back(one, view);
      at("comparison").textContent = words;
    }
  });
}

// Show a trace: the text of a file, or of a request that is remembered.
async function open(read, what) {
  if (running) return;
  try {
    view.trace(await read(), what, ({ rounds, root }) => {
      comparable(null);
      const outcome = root?.said.outcome ? `, ended with ${root.said.outcome}` : "", error = root?.error ? `: ${root.error}` : "";
      status(`${what[0].toUpperCase()}${what.slice(1)} is open: ${rounds.length} rounds${outcome}${error}.`);
    });
  } catch (error) {
    failed(error);
  }
}

const opened = (file) => file && open(() => file.text(), file.name);
const remembered = (id) => open(() => get(`api/requests/${encodeURIComponent(id)}`, key()), "the request");

async function refresh() {
  try {
    at("recent").replaceChildren(...rows(JSON.parse(await get("api/requests", key())).requests, remembered));
  } catch (error) {
    at("recent").replaceChildren(made("tr", {}, made("td", { colSpan: 8 }, error.words ?? error.message)));
  }
}

function named(replica) {
  if (!replica?.info) return "none";
  const name = short(replica.info.model_id);
  return replica.state === "REPLICA_STATE_READY" ? name : `${name} (not in use: ${replica.reason})`;
}

async function who() {
  try {
    const { target, draft, max_draft_tokens: most } = JSON.parse(await get("api/info", key()));
    at("serving").textContent = `target ${named(target)}; draft ${named(draft)}; up to ${most} draft tokens a round`;
  } catch (error) {
    at("serving").textContent = error.words ?? error.message;
  }
}

function look() {
  who();
  refresh();
}

at("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
at("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") running?.abort(); });
at("stop").addEventListener("click", () => running?.abort());
at("mode").addEventListener("change", () => { at("k").disabled = at("mode").value !== "FIXED"; });
at("compare").addEventListener("click", compare);
at("open").addEventListener("change", (event) => { opened(event.target.files[0]); event.target.value = ""; });
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => { event.preventDefault(); opened(event.dataTransfer.files[0]); });
for (const [id, kind] of [["refresh", "click"], ["key", "change"]]) at(id).addEventListener(kind, look);
look();
