// Draws a request as lanes over time. Only what is in view is drawn, so a long answer costs no more than a short one.
// It knows rounds and SVG, not where they come from.

import { AXIS, PAD, axis, fill, layout, make, names, phases } from "./drawing.js";

const ENOUGH = 8, LEAST = 0.02, MOST_PX = 8_000_000;

// The rounds of which something may be seen between two times, and the place of the first of them.
function inView(rounds, { from, to }) {
  let low = 0, high = rounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rounds[middle].end < from) low = middle + 1;
    else high = middle;
  }
  const first = Math.max(0, low - 1), beyond = rounds.findIndex((round, place) => place >= first && round.start > to);
  return { first, found: rounds.slice(first, beyond < 0 ? undefined : beyond) };
}

export class Lanes {
  #chosen;
  #zoomed;
  #scroller = document.createElement("div");
  #wide = document.createElement("div");
  #names = make("svg", { class: "names", "aria-hidden": "true" });
  #svg = make("svg", { role: "listbox", "aria-label": "Rounds on a time axis", "aria-orientation": "horizontal" });
  #back = make("g", {}, this.#svg);
  #groups = new Map();
  #request = null;
  #picked = null; // id of the round that is looked at
  #pixels = 2; // per millisecond
  #suited = 0; // number of rounds by which the scale was chosen
  #sized = 0; // width in pixels of what was shown last
  #due = 0;

  // `chosen` hears which round somebody looks at, `zoomed` the place of the slider, 0 to 100.
  constructor(box, chosen, zoomed) {
    this.#chosen = chosen;
    this.#zoomed = zoomed;
    this.#scroller.className = "scroller";
    this.#wide.className = "wide-lanes";
    this.#wide.append(this.#svg);
    this.#scroller.append(this.#wide);
    box.replaceChildren(this.#names, this.#scroller);
    this.box = box;
    this.#scroller.addEventListener("scroll", () => this.#later());
    this.#scroller.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    new ResizeObserver(() => this.#later()).observe(this.#scroller);
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    for (const kind of ["pointerover", "focusin", "click"]) this.#svg.addEventListener(kind, (event) => this.#pointed(event));
  }

  // Another request, or more of the same. One that still runs scrolls along, unless somebody has scrolled back.
  show(request, live = false) {
    const same = request === this.#request, end = this.#scroller.scrollLeft + this.#scroller.clientWidth >= this.#sized - 60;
    if (!same) {
      this.#suited = 0;
      this.#picked = null;
      this.#clear();
    }
    this.#request = request;
    this.box.dataset.rounds = request?.rounds.length ?? 0;
    if (this.#suited < ENOUGH && request?.rounds.length) this.#suit();
    this.#size();
    if (live && (end || !same)) this.#scroller.scrollLeft = this.#total;
    else if (!same) this.#scroller.scrollLeft = 0;
    this.#later();
  }

  // All of it at once.
  fit() {
    this.#suited = Infinity;
    this.#to((this.#scroller.clientWidth - 2 * PAD - 1) / this.#span);
  }

  // The slider's place, 0 to 100.
  zoom(place) {
    this.#suited = Infinity;
    this.#to(LEAST * 2 ** (place / 8));
  }

  get #span() {
    return Math.max(1, (this.#request?.end ?? 0) - (this.#request?.start ?? 0));
  }

  get #total() {
    const whole = this.#span * this.#pixels + 2 * PAD;
    return this.#request?.rounds.length ? Math.min(MOST_PX, Math.max(this.#scroller.clientWidth, whole)) : 0;
  }

  // Rounds wide enough to be read.
  #suit() {
    const { rounds } = this.#request;
    this.#suited = rounds.length;
    const took = rounds.map((round) => round.end - round.start).sort((a, b) => a - b);
    this.#to(Math.max(58 / Math.max(0.1, took[took.length >> 1]), (this.#scroller.clientWidth - 2 * PAD - 1) / this.#span / 4));
  }

  // Another scale; what is in the middle stays there.
  #to(pixels) {
    const half = this.#scroller.clientWidth / 2, middle = (this.#scroller.scrollLeft + half - PAD) / this.#pixels;
    this.#pixels = Math.min(120, Math.max(LEAST / 4, pixels));
    this.#zoomed(Math.round(Math.max(0, 8 * Math.log2(this.#pixels / LEAST))));
    this.#size();
    this.#scroller.scrollLeft = middle * this.#pixels + PAD - half;
    this.#later();
  }

  #wheel(event) {
    if (!event.ctrlKey || !this.#request) return;
    event.preventDefault();
    this.#suited = Infinity;
    this.#to(this.#pixels * (event.deltaY < 0 ? 1.2 : 1 / 1.2));
  }

  #clear() {
    for (const { group } of this.#groups.values()) group.remove();
    this.#groups.clear();
  }

  #size() {
    this.#sized = this.#total;
    this.#wide.style.width = `${this.#sized}px`;
  }

  #later() {
    if (!this.#due) this.#due = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    cancelAnimationFrame(this.#due);
    this.#due = 0;
    this.#back.replaceChildren();
    this.#names.replaceChildren();
    const request = this.#request, pixels = this.#pixels, left = this.#scroller.scrollLeft, width = this.#scroller.clientWidth;
    const known = request?.rounds.length ? layout(request) : null;
    for (const svg of [this.#svg, this.#names]) svg.setAttribute("height", known ? known.bottom + AXIS : 0);
    if (!known) return this.#clear();
    this.#svg.setAttribute("width", width);
    const x = (time) => PAD + (time - request.start) * pixels - left;
    const time = (place) => request.start + (place + left - PAD) / pixels;
    const view = { request, pixels, x, from: time(0), to: time(width), ...known };
    names(this.#names, view);
    axis(this.#back, view);
    phases(this.#back, view);
    this.#rounds(view);
  }

  #rounds(view) {
    const { rounds } = this.#request, { first, found } = inView(rounds, view), shown = new Set(found.map((round) => round.id));
    for (const [id, { group }] of this.#groups) {
      if (shown.has(id) || group === document.activeElement) continue;
      group.remove();
      this.#groups.delete(id);
    }
    let before = this.#back;
    for (const [place, round] of found.entries()) {
      const group = this.#group(round, first + place, view);
      if (before.nextSibling !== group) before.after(group); // in order of time
      group.setAttribute("transform", `translate(${view.x(round.start).toFixed(2)} 0)`);
      group.setAttribute("aria-setsize", rounds.length);
      before = group;
    }
    this.#reachable(shown);
  }

  // One of them can be reached with Tab: the one that is looked at, else the first in view.
  #reachable(shown) {
    const entry = shown.has(this.#picked) ? this.#picked : shown.values().next().value;
    for (const [id, { group }] of this.#groups) {
      group.setAttribute("tabindex", id === entry ? 0 : -1);
      group.setAttribute("aria-selected", id === this.#picked);
      group.classList.toggle("chosen", id === this.#picked);
    }
  }

  #group(round, place, view) {
    const key = `${view.pixels} ${round.exchanges.length} ${view.bottom}`, known = this.#groups.get(round.id);
    if (known?.key === key) return known.group;
    const group = known?.group ?? make("g", { class: "one", role: "option", "aria-posinset": place + 1 }, this.#svg);
    group.dataset.place = place;
    fill(group, round, view);
    this.#groups.set(round.id, { group, key });
    return group;
  }

  #pointed(event) {
    const group = event.target.closest("g.one");
    if (!group) return;
    this.#pick(Number(group.dataset.place));
    if (event.type === "click") group.focus();
  }

  #pick(place) {
    const round = this.#request.rounds[place];
    if (!round || round.id === this.#picked) return;
    this.#picked = round.id;
    this.#reachable(new Set(this.#groups.keys()));
    this.#chosen(this.#request, round);
  }

  #key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    const group = event.target.closest("g.one");
    if (!(event.key in steps) || !group) return;
    event.preventDefault();
    const { rounds } = this.#request, place = Math.min(rounds.length - 1, Math.max(0, Number(group.dataset.place) + steps[event.key]));
    const round = rounds[place], from = (round.start - this.#request.start) * this.#pixels, width = this.#scroller.clientWidth;
    const to = from + (round.end - round.start) * this.#pixels + 2 * PAD;
    if (from < this.#scroller.scrollLeft || to > this.#scroller.scrollLeft + width) this.#scroller.scrollLeft = from - width / 3;
    this.#draw();
    this.#groups.get(round.id)?.group.focus({ preventScroll: true });
  }
}
