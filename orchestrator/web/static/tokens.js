// Tokens by their fate, and which part of an answer's text each of them is. Pure.

import { SAID } from "./trace.js";

const UNCLEAR = "\ufffd";
const MARKS = { accepted: "■", rejected: "□", correction: "◆", bonus: "◆", plain: "●" };
export const MEANING = {
  accepted: "accepted: the draft guessed it, and the target chose it too",
  rejected: "rejected: the draft guessed it, the target did not choose it",
  correction: "correction: the target's own choice, where the guess was wrong",
  bonus: "bonus: the target's own choice after a block that was accepted whole",
  plain: "target only: no guess was made for this round",
};

// A round's tokens in order: accepted, rejected, then the target's own. Of a trace without texts: ids, or marks.
export function tokensOf(said) {
  const accepted = said[SAID.accepted] ?? 0, proposed = said[SAID.proposed] ?? 0, emitted = said[SAID.emitted] ?? 0;
  const own = proposed === 0 ? "plain" : accepted === proposed ? "bonus" : "correction";
  const text = (texts, ids, place, fate) =>
    said[texts]?.[place] ?? (said[ids]?.[place] === undefined ? MARKS[fate] : `<${said[ids][place]}>`);
  const listed = (count, texts, ids, fateAt) =>
    Array.from({ length: Math.min(count, 4096) }, (_, place) => ({ fate: fateAt(place), text: text(texts, ids, place, fateAt(place)), place }));
  const committed = listed(emitted, SAID.texts, SAID.tokens, (place) => (place < accepted ? "accepted" : own));
  const block = listed(proposed, SAID.blockTexts, SAID.block, () => "rejected");
  return [...committed.slice(0, accepted), ...block.slice(accepted), ...committed.slice(accepted)];
}

// Gives every committed token its part of the text. A token decoded by itself may say less (no leading space) or
// something unclear (a part of a character), so the text of the answer decides: joined parts are always that text.
export class Speller {
  #tell;
  #waiting = [];
  #text = "";

  // `tell` hears (token, text) for each token in order, when its text is certain.
  constructor(tell) {
    this.#tell = tell;
  }

  text(more) {
    this.#text += more;
    this.#settle(false);
  }

  tokens(more) {
    this.#waiting.push(...more);
    this.#settle(false);
  }

  // Nothing follows. Returns text that no token was known for.
  finish() {
    this.#settle(true);
    const rest = this.#text;
    this.#text = "";
    return rest;
  }

  #settle(last) {
    while (this.#waiting.length) {
      const size = this.#waiting.length === 1 && last ? this.#text.length : this.#size(last);
      if (size < 0) return;
      this.#tell(this.#waiting.shift(), this.#text.slice(0, size));
      this.#text = this.#text.slice(size);
    }
  }

  // How much of the text the first waiting token is; -1 while that cannot be told.
  #size(last) {
    const [first, ...others] = this.#waiting, own = first.text;
    if (own === "") return 0;
    const space = this.#text.length - this.#text.trimStart().length;
    if (!own.includes(UNCLEAR)) {
      for (const lead of [0, space]) if (this.#text.startsWith(own, lead)) return lead + own.length;
      for (const lead of [0, space]) if (own.startsWith(this.#text.slice(lead))) return last ? this.#text.length : -1;
    }
    if (!this.#text) return last ? 0 : -1;
    for (const other of others) {
      const place = other.text && !other.text.includes(UNCLEAR) ? this.#text.indexOf(other.text) : -1;
      if (place >= 0) return place;
    }
    return this.#text.length;
  }
}
