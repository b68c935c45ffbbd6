// Figures of a request, by the definitions of the README. Pure.

import { SAID } from "./trace.js";

export const ms = (value) => (Number.isFinite(value) ? `${value.toFixed(value < 100 ? 1 : 0)} ms` : "–");
export const per = (value) => (Number.isFinite(value) && value > 0 ? value.toFixed(1) : "–");

// Sums of an answer as its events come, by this machine's clock; milliseconds.
export class Progress {
  constructor(now) {
    this.asked = now;
    this.first = this.last = NaN;
    this.tokens = this.rounds = this.proposed = this.accepted = 0;
  }

  delta(data, now) {
    if (data.token_ids.length && !this.tokens) this.first = now;
    this.last = now;
    this.tokens += data.token_ids.length;
    if (!data.round) return;
    this.rounds += 1;
    this.proposed += data.round.draft_tokens.length;
    this.accepted += data.round.num_accepted;
  }

  get sums() {
    const { tokens, rounds, proposed, accepted } = this;
    return worked({ tokens, rounds, proposed, accepted, firstMs: this.first - this.asked, tookMs: this.last - this.asked });
  }
}

// The same of a request's spans, by its orchestrator's clock.
export function sumsOf(request) {
  const { root, rounds, start, end } = request, said = root?.said ?? {};
  const sum = (name) => rounds.reduce((all, round) => all + (round.said[name] ?? 0), 0);
  const known = said[SAID.firstS];
  return worked({
    tokens: said[SAID.output] ?? sum(SAID.emitted), rounds: rounds.length, proposed: sum(SAID.proposed),
    accepted: sum(SAID.accepted), tookMs: end - start,
    firstMs: known !== undefined ? known * 1000 : rounds.length ? rounds[0].end - start : NaN,
    tokenMs: said[SAID.perTokenS] === undefined ? undefined : said[SAID.perTokenS] * 1000,
  });
}

function worked(sums) {
  const { tokens, tookMs, firstMs } = sums;
  return { ...sums, perSecond: (1000 * tokens) / tookMs, tokenMs: sums.tokenMs ?? (tookMs - firstMs) / (tokens - 1) };
}

// Pairs of name and words.
export function figures(sums) {
  return [
    ["tokens", String(sums.tokens)],
    ["tokens/s", per(sums.perSecond)],
    ["first token", ms(sums.firstMs)],
    ["per later token", ms(sums.tokenMs)],
    ["rounds", String(sums.rounds)],
    ["mean accepted length", sums.rounds ? (sums.tokens / sums.rounds).toFixed(2) : "–"],
    ["acceptance rate", sums.proposed ? `${((100 * sums.accepted) / sums.proposed).toFixed(0)} %` : "–"],
    ["accepted / proposed", `${sums.accepted} / ${sums.proposed}`],
  ];
}
