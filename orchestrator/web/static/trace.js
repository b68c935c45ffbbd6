// Spans as requests: rounds, and bars on the lanes of orchestrator, draft and target. Pure.
//
// A replica's time is placed inside its exchange: half of the network's share, its queue, its passes, the other half.
// So no two clocks are compared. All times here are milliseconds since the first span that was seen.

const A = "outrider.";
export const SAID = {
  session: `${A}session.id`, outcome: "outcome", model: "gen_ai.request.model", output: "gen_ai.usage.output_tokens",
  input: "gen_ai.usage.input_tokens", cached: `${A}request.cached_prompt_tokens`, firstS: `${A}request.time_to_first_token_s`,
  perTokenS: `${A}request.time_per_output_token_s`, leftOut: `${A}spans_left_out`, round: `${A}round`, mode: `${A}round.mode`,
  k: `${A}round.draft_tokens`, proposed: `${A}round.proposed`, accepted: `${A}round.accepted`, emitted: `${A}round.emitted`,
  prepared: `${A}round.prepared`, hit: `${A}round.look_ahead_hit`, drafter: `${A}round.drafter`, block: `${A}round.block`,
  tokens: `${A}round.tokens`, blockTexts: `${A}round.block_texts`, texts: `${A}round.texts`, probe: `${A}plan.probe`,
  queueUs: `${A}queue_us`, forwardUs: `${A}forward_us`, networkUs: `${A}network_us`, passes: `${A}passes`,
  rows: `${A}batch.rows`, sent: `${A}bytes_sent`, received: `${A}bytes_received`, address: "server.address",
  reason: `${A}reason`, errorType: "error.type",
};
const LANE_OF = { "draft.propose": "draft", "draft.prepare": "ahead", "target.verify": "target" };
const PHASES = ["queue", "prompt", "prefill"];
const TROUBLES = { [`${A}cache_miss`]: "prefix not cached", [`${A}failover`]: "fail-over", [`${A}draft_fault`]: "draft fault" };

export class Request {
  root = null;
  rounds = [];
  phases = [];
  start = Infinity;
  end = -Infinity;
  #base = null;
  #byId = new Map();
  #early = new Map(); // exchanges that came before their round
  #wayMs = Infinity;

  // More spans of this request, in any order.
  add(spans) {
    for (const span of spans) this.#one(span);
    this.rounds.sort((a, b) => a.start - b.start);
  }

  #one(span) {
    this.#base ??= span.startNs;
    const at = (ns) => Number(ns - this.#base) / 1e6;
    const known = { ...span, start: at(span.startNs), end: at(span.endNs), events: span.events.map((each) => ({ ...each, at: at(each.atNs) })) };
    if (span.name === "generate") this.root = known;
    else if (PHASES.includes(span.name)) this.phases.push(known);
    else if (span.name === "round") this.#round(known);
    else if (span.name in LANE_OF) this.#exchange(known);
    else return;
    this.start = Math.min(this.start, known.start);
    if (span.name in LANE_OF) return; // a look-ahead that nobody waited for may end after the answer
    this.end = Math.max(this.end, known.end);
  }

  #round(span) {
    const exchanges = this.#early.get(span.id) ?? [];
    this.#early.delete(span.id);
    const number = span.said[SAID.round] ?? exchanges[0]?.said[SAID.round] ?? 0;
    const round = { ...span, number, exchanges };
    this.#byId.set(span.id, round);
    this.rounds.push(round);
  }

  #exchange(span) {
    const round = this.#byId.get(span.parent), way = span.said[SAID.networkUs];
    if (LANE_OF[span.name] === "target" && way !== undefined) this.#wayMs = Math.min(this.#wayMs, way / 2000);
    if (round !== undefined) round.exchanges.push(span);
    else this.#early.set(span.parent, [...(this.#early.get(span.parent) ?? []), span]);
  }

  // Bars of a round: { lane, kind, start, end }, of kind work, wait, network, asked (nobody knows) or failed.
  bars(round) {
    const waited = round.exchanges.filter((each) => LANE_OF[each.name] !== "ahead").sort((a, b) => a.start - b.start);
    const own = [];
    let free = round.start;
    for (const each of [...waited, { start: round.end, end: round.end }]) {
      if (each.start > free) own.push({ lane: "orchestrator", kind: "work", start: free, end: Math.min(each.start, round.end) });
      free = Math.max(free, each.end);
    }
    return [...own, ...round.exchanges.flatMap((each) => this.#bars(each))];
  }

  #bars(exchange) {
    const lane = LANE_OF[exchange.name], { said, start, end, error } = exchange;
    if (error || said[SAID.forwardUs] === undefined) return [{ lane, kind: error ? "failed" : "asked", start, end }];
    const queue = (said[SAID.queueUs] ?? 0) / 1000, forward = said[SAID.forwardUs] / 1000, known = said[SAID.networkUs];
    // In a run the target goes on by itself, and only when its verdict came is known.
    const way = known !== undefined ? known / 2000 : Number.isFinite(this.#wayMs) ? this.#wayMs : 0;
    const from = known !== undefined ? start : end - way - forward - queue;
    const arrives = known !== undefined ? from + way : from;
    const marks = [from, arrives, arrives + queue, arrives + queue + forward, arrives + queue + forward + way];
    return ["network", "wait", "work", "network"]
      .map((kind, place) => ({ lane, kind, start: marks[place], end: marks[place + 1] }))
      .filter((bar) => bar.end > bar.start);
  }

  // What went wrong in a round, in words.
  troubles(round) {
    const found = [...round.exchanges, round].flatMap((span) => span.events).filter((each) => each.name in TROUBLES);
    const words = found.map((each) => `${TROUBLES[each.name]}: ${each.said[SAID.reason] ?? each.said[SAID.errorType] ?? "unknown"}`);
    return round.error ? [...words, `failed: ${round.error}`] : words;
  }
}

// The requests among spans of any traces, the last one last. Of one that was cut off its own span is missing.
export function requestsOf(spans) {
  const unique = [...new Map(spans.map((span) => [span.id, span])).values()];
  const ours = (span) => span.name === "generate" && (SAID.session in span.said || SAID.outcome in span.said);
  const roots = new Set(unique.filter((span) => ours(span)).map((span) => span.id));
  for (const span of unique) if (span.name === "round" && span.parent) roots.add(span.parent);
  const requests = new Map([...roots].map((id) => [id, []]));
  const ofRound = new Map();
  for (const span of unique) {
    const root = requests.has(span.id) ? span.id : requests.has(span.parent) ? span.parent : undefined;
    if (root === undefined) continue;
    requests.get(root).push(span);
    if (span.name === "round") ofRound.set(span.id, root);
  }
  for (const span of unique) if (ofRound.has(span.parent)) requests.get(ofRound.get(span.parent)).push(span);
  return [...requests.values()].sort((a, b) => (earliest(a) < earliest(b) ? -1 : 1)).map((own) => {
    const request = new Request();
    request.add(own);
    return request;
  });
}

function earliest(spans) {
  return spans.reduce((first, span) => (span.startNs < first ? span.startNs : first), spans[0].startNs);
}
