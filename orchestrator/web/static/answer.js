// The text of an answer on the page, each token by its fate. It knows tokens and elements, not calls.

import { made } from "./page.js";
import { MEANING, Speller, tokensOf } from "./tokens.js";

export class Answer {
  #box;
  #speller;

  constructor(box) {
    this.#box = box;
    this.#speller = new Speller((token, text) => {
      token.element.textContent = text;
      token.element.classList.toggle("silent", text === "");
    });
    box.replaceChildren();
  }

  // Text that is certain; which tokens it is, rounds say.
  text(more) {
    this.#speller.text(more);
  }

  // The tokens of a round.
  round(round) {
    const tokens = tokensOf(round.said);
    for (const token of tokens) {
      const rejected = token.fate === "rejected";
      token.element = made(rejected ? "s" : "span", { className: `token ${token.fate}`, title: `${MEANING[token.fate]} (round ${round.number})` });
      token.element.dataset.round = round.id;
      if (rejected) token.element.textContent = token.text.replaceAll("\n", "⏎");
      this.#box.append(token.element);
    }
    this.#speller.tokens(tokens.filter((token) => token.fate !== "rejected"));
    return tokens;
  }

  // A round of a trace, whose text is that of its tokens.
  told(round) {
    const committed = tokensOf(round.said).filter((token) => token.fate !== "rejected");
    this.round(round);
    this.text(committed.map((token) => token.text).join(""));
  }

  // Text whose tokens nobody knows.
  plain(text) {
    if (text) this.#box.append(made("span", { className: "token", title: "what became of its tokens is not recorded here" }, text));
  }

  finish() {
    this.plain(this.#speller.finish());
  }

  // Mark the tokens of a round.
  mark(id) {
    for (const element of this.#box.querySelectorAll(".chosen")) element.classList.remove("chosen");
    for (const element of this.#box.children) if (element.dataset.round === id) element.classList.add("chosen");
  }
}
