// What is in view: an answer's text and figures, its rounds and their numbers. It knows the page, not calls.

import { Answer } from "./answer.js";
import { details, table } from "./details.js";
import { figures, sumsOf } from "./figures.js";
import { Lanes } from "./lanes.js";
import { at, describe, made } from "./page.js";
import { Request, requestsOf } from "./trace.js";
import { parse, spansOf } from "./otlp.js";

const DRAW_MS = 120; // between two drawings of an answer that is being made: the models may share this machine
const EMPTY = new Request();

export class View {
  #lanes = new Lanes(at("lanes"), (request, round) => this.#choose(request, round), (place) => { at("zoom").value = place; });
  #request = null;
  #text = () => "";
  #name = "";
  #due = 0;

  constructor() {
    at("zoom").addEventListener("input", (event) => this.#lanes.zoom(Number(event.target.value)));
    at("fit").addEventListener("click", () => this.#lanes.fit());
    at("save").addEventListener("click", () => this.#save());
    at("all").addEventListener("toggle", () => this.#table());
    at("rejected").addEventListener("change", (event) => at("answer").classList.toggle("show-rejected", event.target.checked));
    this.clear();
  }

  // Something else, of which nothing is known yet. `text` gives what is saved of it, under a name.
  clear(request = null, text = () => "", name = "") {
    [this.#request, this.#text, this.#name] = [request, text, name];
    this.answer = new Answer(at("answer"));
    for (const id of ["details", "comparison", "figures"]) at(id).replaceChildren();
    at("several").hidden = true;
    this.draw(false);
  }

  #choose(request, round) {
    at("details").replaceChildren(...details(request, round));
    this.answer.mark(round.id);
  }

  // More is known. While an answer is made this is done now and then only.
  draw(live, sums) {
    clearTimeout(this.#due);
    this.#due = 0;
    this.#lanes.show(this.#request, live);
    this.#table();
    at("save").disabled = !this.#request?.rounds.length;
    if (sums) describe(at("figures"), figures(sums));
  }

  soon(sums) {
    this.#due ||= setTimeout(() => this.draw(true, sums()), DRAW_MS);
  }

  #table() {
    if (at("all").open) at("all").querySelector("table").replaceChildren(...table(this.#request ?? EMPTY));
  }

  #save() {
    const link = made("a", { href: URL.createObjectURL(new Blob([this.#text()], { type: "application/json" })) });
    link.download = `outrider-${this.#name.slice(0, 16)}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  // A trace, the last of its requests first. `opened` hears which one is in view. Throws an Error in words.
  trace(text, what, opened) {
    const requests = requestsOf(spansOf(parse(text)));
    if (!requests.length) throw new Error(`${what} holds no request of an orchestrator`);
    const show = (place) => {
      const request = requests[place];
      this.clear(request, () => text, request.root?.trace ?? "trace");
      for (const round of request.rounds) this.answer.told(round);
      this.answer.finish();
      this.draw(false, sumsOf(request));
      at("several").hidden = requests.length < 2;
      opened(request);
    };
    at("which").replaceChildren(...requests.map((_, place) => made("option", { value: place }, `${place + 1} of ${requests.length}`)));
    at("which").value = requests.length - 1;
    at("which").onchange = () => show(Number(at("which").value));
    show(requests.length - 1);
  }
}
