// The page: a form, an answer, its rounds, what was asked before. Everything that tokens say goes in as text.

import { ask, get } from "./events.js";
import { Lanes } from "./lanes.js";
import { beginning, fates, lastRequest, parse, rounds, spansOf } from "./spans.js";

const at = (id) => document.getElementById(id);
const lanes = new Lanes(at("lanes"), showDetails);
let running = null; // what stops the answer that is being made
let last = null; // the last complete answer: request, seed, tokens, speed
let shown = []; // spans of the request in view

function status(text, wrong = false) {
  at("status").textContent = text;
  at("status").classList.toggle("error", wrong);
}

function figures(list, pairs) {
  list.replaceChildren(...pairs.map(([name, text]) => {
    const pair = document.createElement("div");
    pair.append(Object.assign(document.createElement("dt"), { textContent: name }));
    pair.append(Object.assign(document.createElement("dd"), { textContent: text }));
    return pair;
  }));
}

// One answer as it comes.
class Answer {
  constructor() {
    this.asked = performance.now();
    this.first = this.last = null;
    this.tokens = [];
    this.proposed = this.accepted = this.rounds = 0;
    this.seed = this.session = "";
    this.chunks = new Map(); // rounds whose text is there and whose spans are not
  }

  delta(data) {
    const now = performance.now(), ids = data.token_ids ?? [], round = data.round;
    if (ids.length) [this.first, this.last] = [this.first ?? now, now];
    this.tokens.push(...ids);
    if (round !== undefined) {
      this.rounds += 1;
      this.proposed += (round.draft_tokens ?? []).length;
      this.accepted += round.num_accepted ?? 0;
    }
    return round?.round ?? (round !== undefined ? 0 : null);
  }

  get perSecond() {
    const seconds = (this.last - this.first) / 1000;
    return this.tokens.length > 1 && seconds > 0 ? (this.tokens.length - 1) / seconds : 0;
  }

  figures() {
    return [
      ["tokens", String(this.tokens.length)],
      ["tokens per second", this.perSecond ? this.perSecond.toFixed(1) : "-"],
      ["first token", this.first ? `${(this.first - this.asked).toFixed(0)} ms` : "-"],
      ["rounds", String(this.rounds)],
      ["tokens per round", this.rounds ? (this.tokens.length / this.rounds).toFixed(2) : "-"],
      ["acceptance", this.proposed ? `${((100 * this.accepted) / this.proposed).toFixed(0)} % of ${this.proposed}` : "nothing proposed"],
      ["seed", this.seed || "-"],
    ];
  }
}

function token({ text, fate }) {
  const element = document.createElement(fate === "rejected" ? "s" : "span");
  element.className = `token ${fate}`;
  element.textContent = text;
  element.title = fate;
  return element;
}

// The text of a round, plain until its spans say what became of each token.
function addText(answer, number, text) {
  const chunk = document.createElement("span");
  chunk.textContent = text;
  at("answer").append(chunk);
  if (number !== null) answer.chunks.set(number, chunk);
}

function colour(answer, spans) {
  for (const span of spans.filter((each) => each.name === "round")) {
    const number = span.attributes["outrider.round"], chunk = answer.chunks.get(number);
    if (chunk === undefined) continue;
    answer.chunks.delete(number);
    const { emitted, rejected } = fates(span.attributes);
    const whole = emitted.map((each) => each.text).join("") === chunk.textContent;
    const parts = whole ? emitted.map(token) : [token({ text: chunk.textContent, fate: emitted[0]?.fate ?? "plain" })];
    chunk.replaceChildren(...parts, ...rejected.map(token));
  }
}

function showSpans(spans, follow) {
  shown = spans;
  lanes.show(rounds(spans, beginning(spans)), follow);
  at("save").disabled = spans.length === 0;
}

function showDetails(round) {
  const said = round.said, verify = round.bars.find((bar) => bar.lane === "target");
  const draft = round.bars.find((bar) => bar.name === "draft.propose");
  const time = (us) => (us === undefined ? "-" : `${(us / 1000).toFixed(1)} ms`);
  for (const group of at("lanes").querySelectorAll("g.one")) group.classList.toggle("chosen", group.dataset.round === String(round.number));
  figures(at("details"), [
    ["round", `${round.number}, ${said["outrider.round.mode"]}${said["outrider.plan.probe"] ? ", a probe" : ""}`],
    ["accepted", `${said["outrider.round.accepted"]} of ${said["outrider.round.proposed"]}`],
    ["took", `${(round.end - round.start).toFixed(1)} ms`],
    ["expected, tokens/s", `${(said["outrider.estimate.tokens_per_s"] ?? 0).toFixed(1)}; alone ${(said["outrider.estimate.plain_tokens_per_s"] ?? 0).toFixed(1)}`],
    ...bars("draft", draft, time), ...bars("target", verify, time),
    ...(said["outrider.round.look_ahead_hit"] === undefined ? [] : [["look-ahead", said["outrider.round.look_ahead_hit"] ? "was right" : "was wrong or late"]]),
    ...round.troubles.map((each) => [each.name.replace("outrider.", ""), each.attributes["outrider.reason"] ?? each.attributes["error.type"] ?? "-"]),
  ]);
}

function bars(name, bar, time) {
  if (bar === undefined) return [];
  const said = bar.said, bytes = said["outrider.bytes_sent"] === undefined ? "-" : `${said["outrider.bytes_sent"]} / ${said["outrider.bytes_received"]}`;
  return [
    [`${name}: network`, time(said["outrider.network_us"])], [`${name}: queue`, time(said["outrider.queue_us"])],
    [`${name}: passes`, `${time(said["outrider.forward_us"])} in ${said["outrider.passes"] ?? "-"}`],
    [`${name}: rows in the last`, String(said["outrider.batch.rows"] ?? "-")], [`${name}: bytes out / in`, bytes],
  ];
}

function request() {
  const text = at("prompt").value, seed = at("seed").value.trim(), mode = at("mode").value;
  const input = at("kind").value === "chat" ? { chat: { messages: [{ role: "user", content: text }] } } : { prompt: text };
  return {
    ...input, max_new_tokens: Number(at("max").value),
    sampling: { temperature: Number(at("temperature").value), ...(seed ? { seed } : {}) },
    speculation: { mode: `SPECULATION_MODE_${mode}`, ...(mode === "FIXED" ? { draft_tokens: Number(at("k").value) } : {}) },
  };
}

// Make one answer; ``draw`` says whether it is shown. Resolves to it when it is complete, else to null.
async function make(body, draw) {
  const answer = new Answer(), spans = [];
  let complete = false, wrong = null;
  running = new AbortController();
  await ask("/api/generate", body, at("key").value, running.signal, (kind, data) => {
    if (kind === "started") [answer.seed, answer.session] = [data.seed ?? "0", data.session_id];
    if (kind === "finished") complete = true;
    if (kind === "error") wrong = data;
    const number = kind === "delta" ? answer.delta(data) : null;
    if (!draw) return;
    if (kind === "delta") addText(answer, number, data.text ?? "");
    if (kind === "spans") {
      const fresh = spansOf([data]);
      spans.push(...fresh);
      colour(answer, fresh);
      showSpans(spans, true);
    }
    if (kind === "delta" || kind === "started") figures(at("figures"), answer.figures());
  });
  if (wrong !== null) throw new Error(`${wrong.code}: ${wrong.message}`);
  return complete ? answer : null;
}

async function during(work) {
  for (const id of ["send", "compare", "open"]) at(id).disabled = true;
  at("stop").disabled = false;
  try {
    await work();
  } catch (error) {
    status(error.name === "AbortError" ? "Stopped." : error.message, error.name !== "AbortError");
  } finally {
    running = null;
    at("stop").disabled = true;
    at("send").disabled = at("open").disabled = false;
    at("compare").disabled = last === null;
    refresh();
  }
}

async function send(event) {
  event.preventDefault();
  const body = request();
  last = null;
  at("answer").replaceChildren();
  at("comparison").textContent = "";
  at("details").replaceChildren();
  showSpans([], false);
  status("The answer is being made.");
  await during(async () => {
    const answer = await make(body, true);
    if (answer === null) return status("The stream ended before the answer did.", true);
    last = { body, answer };
    status(`The answer is complete: ${answer.tokens.length} tokens in ${answer.rounds} rounds.`);
  });
}

async function compare() {
  const { body, answer } = last, alone = structuredClone(body);
  alone.speculation = { mode: "SPECULATION_MODE_OFF" };
  alone.sampling.seed = answer.seed;
  status("The target answers the same alone.");
  await during(async () => {
    const plain = await make(alone, false);
    if (plain === null) return status("The stream ended before the answer did.", true);
    const same = plain.tokens.length === answer.tokens.length && plain.tokens.every((id, place) => id === answer.tokens[place]);
    const ratio = plain.perSecond ? (answer.perSecond / plain.perSecond).toFixed(2) : "-";
    at("comparison").textContent =
      `The target alone: ${plain.perSecond.toFixed(1)} tokens per second; this answer: ${answer.perSecond.toFixed(1)}, ` +
      `${ratio} times as fast. The tokens are ${same ? "identical" : "NOT identical"}.`;
    status("Compared.");
  });
}

async function refresh() {
  try {
    const { requests = [] } = await get("/api/requests", at("key").value);
    at("recent").replaceChildren(...requests.map(row));
  } catch (error) {
    const cell = Object.assign(document.createElement("td"), { colSpan: 8, textContent: error.message });
    const line = document.createElement("tr");
    line.append(cell);
    at("recent").replaceChildren(line);
  }
}

function row(each) {
  const line = document.createElement("tr"), proposed = each.proposed ?? 0, seconds = (us) => (us ? `${(Number(us) / 1e6).toFixed(2)} s` : "-");
  const when = new Date(Number(BigInt(each.started_unix_ns) / 1000000n)).toLocaleTimeString();
  const cells = [when, each.running ? "runs" : each.outcome, each.completion_tokens ?? 0, each.rounds ?? 0,
    proposed ? `${each.accepted ?? 0} of ${proposed}` : "-", seconds(each.first_token_us), seconds(each.took_us)];
  for (const text of cells) line.append(Object.assign(document.createElement("td"), { textContent: text }));
  const open = Object.assign(document.createElement("button"), { type: "button", textContent: "open" });
  open.setAttribute("aria-label", `open the rounds of the request of ${when}`);
  open.addEventListener("click", () => openTrace(async () => [await get(`/api/requests/${each.trace_id}`, at("key").value)]));
  const cell = document.createElement("td");
  cell.append(open);
  line.append(cell);
  return line;
}

// Show a request that is over: its rounds, and its text as far as the trace has it.
async function openTrace(read) {
  try {
    const spans = lastRequest(spansOf(await read()));
    const answer = new Answer();
    at("answer").replaceChildren();
    at("comparison").textContent = "";
    last = null;
    at("compare").disabled = true;
    showSpans(spans, false);
    for (const round of rounds(spans, beginning(spans))) {
      const { emitted, rejected } = fates(round.said);
      at("answer").append(...emitted.map(token), ...rejected.map(token));
      answer.rounds += 1;
    }
    const said = spans.find((span) => span.name === "generate")?.attributes ?? {};
    figures(at("figures"), [
      ["model", short(said["gen_ai.request.model"] ?? "-")], ["outcome", said.outcome ?? "-"],
      ["tokens", String(said["gen_ai.usage.output_tokens"] ?? "-")], ["rounds", String(answer.rounds)],
      ["waited", `${(1000 * (said["outrider.request.queue_s"] ?? 0)).toFixed(1)} ms`],
      ["first token", `${(1000 * (said["outrider.request.time_to_first_token_s"] ?? 0)).toFixed(0)} ms`],
    ]);
    status(`A trace with ${answer.rounds} rounds is open.`);
  } catch (error) {
    status(error.message, true);
  }
}

async function save() {
  const text = JSON.stringify(await get(`/api/requests/${shown[0].trace}`, at("key").value));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = `outrider-${shown[0].trace.slice(0, 12)}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}

// The last part of a path or of a hub's id.
function short(model) {
  return model.split("/").filter(Boolean).pop() ?? model;
}

async function who() {
  try {
    const info = await get("/api/info", at("key").value);
    const target = info.target?.info?.model_id, draft = info.draft?.info?.model_id;
    at("serving").textContent = `${target ? `target ${short(target)}` : "no target"}; ${draft ? `draft ${short(draft)}` : "no draft"}`;
    at("k").max = info.max_draft_tokens ?? 64;
  } catch (error) {
    at("serving").textContent = error.message;
  }
}

at("ask").addEventListener("submit", send);
at("stop").addEventListener("click", () => running?.abort());
at("compare").addEventListener("click", compare);
at("refresh").addEventListener("click", refresh);
at("save").addEventListener("click", () => save().catch((error) => status(error.message, true)));
at("open").addEventListener("change", (event) => {
  const [file] = event.target.files;
  if (file) openTrace(async () => parse(await file.text()));
  event.target.value = "";
});
at("mode").addEventListener("change", () => { at("k").disabled = at("mode").value !== "FIXED"; });
at("rejected").addEventListener("change", (event) => at("answer").classList.toggle("show-rejected", event.target.checked));
at("zoom").addEventListener("input", (event) => lanes.zoom(0.2 * 200 ** (Number(event.target.value) / 100)));
at("key").addEventListener("change", () => { who(); refresh(); });
who();
refresh();
