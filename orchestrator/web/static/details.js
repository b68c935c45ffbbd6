// What a round was, in words and numbers. It knows a request's rounds, not where they are drawn.

import { ms } from "./figures.js";
import { made, row, short } from "./page.js";
import { tokensOf } from "./tokens.js";
import { SAID } from "./trace.js";

const WHO = { "draft.propose": "draft, asked", "draft.prepare": "draft, ahead", "target.verify": "target" };

// A round in a sentence.
export function words(request, round) {
  const { said } = round, proposed = said[SAID.proposed] ?? 0;
  const guess = proposed ? `${said[SAID.accepted]} of ${proposed} draft tokens accepted` : "no draft tokens";
  const ready = said[SAID.prepared] ? ", prepared" : "", mode = (said[SAID.mode] ?? "unfinished").replaceAll("_", " ");
  const troubles = request.troubles(round);
  return `Round ${round.number}, ${mode}${ready}: ${guess}, ${said[SAID.emitted] ?? 0} emitted, ${ms(round.end - round.start)}` +
    (troubles.length ? `; ${troubles.join("; ")}` : "");
}

function more({ said }, request, round) {
  const found = [`k = ${said[SAID.k] ?? 0}`, `began at ${ms(round.start - request.start)}`];
  if (said[SAID.drafter] === "ngram") found.push("copied from the text");
  if (said[SAID.probe]) found.push("done to learn");
  if (said[SAID.hit] !== undefined) found.push(said[SAID.hit] ? "look-ahead had this outcome ready" : "look-ahead was wrong or late");
  return found.join(", ");
}

const known = (value, words) => (value === undefined ? "–" : words(value));
const us = (value) => known(value, (each) => ms(each / 1000));

function exchange({ name, start, end, said }) {
  const passes = known(said[SAID.forwardUs], (each) => `${ms(each / 1000)} in ${said[SAID.passes] ?? 0}`);
  const bytes = known(said[SAID.sent], (each) => `${each} / ${said[SAID.received]}`);
  return row([`${WHO[name]} ${short(said[SAID.address] ?? "")}`, ms(end - start), us(said[SAID.networkUs]), us(said[SAID.queueUs]), passes,
    known(said[SAID.rows], String), bytes]);
}

const visible = (text) => text.replaceAll("\n", "⏎");

// Elements that show a round.
export function details(request, round) {
  const tokens = tokensOf(round.said).map(({ fate, text }) => made(fate === "rejected" ? "s" : "span", { className: `token ${fate}` }, visible(text)));
  const heads = ["", "took", "network", "queue", "passes", "rows in the last", "bytes out / in"];
  const table = made("table", {}, made("thead", {}, row(heads, "th")), made("tbody", {}, ...round.exchanges.map(exchange)));
  return [
    made("p", { className: "sentence" }, words(request, round)),
    made("p", { className: "hint" }, more(round, request, round)),
    made("p", { className: "tokens" }, ...tokens),
    made("div", { className: "scroll", tabIndex: 0 }, table),
  ];
}

// The rows of a table of all rounds.
export function table(request) {
  const heads = ["round", "mode", "k", "accepted", "emitted", "began", "took", "tokens"];
  const one = (round) => {
    const { said } = round, tokens = tokensOf(said).filter((token) => token.fate !== "rejected").map((token) => token.text);
    return row([String(round.number), (said[SAID.mode] ?? "unfinished").replaceAll("_", " "), String(said[SAID.k] ?? 0),
      `${said[SAID.accepted] ?? 0} of ${said[SAID.proposed] ?? 0}`, String(said[SAID.emitted] ?? 0),
      ms(round.start - request.start), ms(round.end - round.start), tokens.join("")]);
  };
  return [made("thead", {}, row(heads, "th")), made("tbody", {}, ...request.rounds.map(one))];
}
