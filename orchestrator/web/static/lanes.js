// Draws rounds as three lanes over time. It knows rounds and SVG, not where they come from.

const SVG = "http://www.w3.org/2000/svg";
const LANES = ["orchestrator", "draft", "target"];
const LEFT = 92, TOP = 8, LANE = 26, GAP = 8, AXIS = 22;

function make(name, given, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, each] of Object.entries(given)) element.setAttribute(key, String(each));
  parent?.append(element);
  return element;
}

const top = (lane) => TOP + LANES.indexOf(lane) * (LANE + GAP);

export class Lanes {
  // ``chosen`` hears which round somebody looks at.
  constructor(box, chosen) {
    this.box = box;
    this.chosen = chosen;
    this.rounds = [];
    this.pixels = 4; // per millisecond
    box.addEventListener("keydown", (event) => this.#step(event));
  }

  show(rounds, follow = false) {
    this.rounds = rounds;
    this.#draw();
    if (follow) this.box.scrollLeft = this.box.scrollWidth;
  }

  zoom(pixels) {
    this.pixels = pixels;
    this.#draw();
  }

  #draw() {
    const focused = document.activeElement?.dataset?.round;
    this.box.replaceChildren();
    if (this.rounds.length === 0) return;
    const first = this.rounds[0].start, last = Math.max(...this.rounds.map((round) => round.end));
    const width = LEFT + Math.max(40, (last - first) * this.pixels) + 16, height = TOP + 3 * (LANE + GAP) + AXIS;
    const svg = make("svg", { width, height, role: "group", "aria-label": `${this.rounds.length} rounds` }, this.box);
    const x = (time) => LEFT + (time - first) * this.pixels;
    for (const lane of LANES) make("text", { x: 6, y: top(lane) + LANE / 2 + 4 }, svg).textContent = lane;
    this.#axis(svg, first, last, x, height);
    for (const round of this.rounds) this.#round(svg, round, x);
    if (focused !== undefined) svg.querySelector(`[data-round="${focused}"]`)?.focus({ preventScroll: true });
  }

  #axis(svg, first, last, x, height) {
    const wanted = 90 / this.pixels, power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wanted);
    for (let time = Math.ceil(first / step) * step; time <= last; time += step) {
      make("line", { class: "tick", x1: x(time), x2: x(time), y1: TOP, y2: height - AXIS }, svg);
      make("text", { x: x(time) + 3, y: height - 7 }, svg).textContent = `${Number(time.toPrecision(6))} ms`;
    }
  }

  #round(svg, round, x) {
    const group = make("g", { class: "one", tabindex: -1, role: "img", "aria-label": words(round) }, svg);
    group.dataset.round = round.number;
    const wide = (start, end) => Math.max(1, (end - start) * this.pixels - 0.5);
    make("rect", { class: "round", x: x(round.start), y: top("orchestrator"), width: wide(round.start, round.end), height: LANE, rx: 2 }, group);
    for (const bar of round.bars) {
      const lane = make("g", { class: bar.lane }, group), y = top(bar.lane);
      make("rect", { class: "network", x: x(bar.start), y: y + 6, width: wide(bar.start, bar.end), height: LANE - 12 }, lane);
      if (bar.computes > bar.begins) make("rect", { class: "queue", x: x(bar.begins), y: y + 3, width: wide(bar.begins, bar.computes), height: LANE - 6 }, lane);
      if (bar.ends > bar.computes) make("rect", { class: "compute", x: x(bar.computes), y, width: wide(bar.computes, bar.ends), height: LANE, rx: 2 }, lane);
    }
    if (round.troubles.length) make("path", { class: "trouble", d: `M${x(round.start)} ${top("orchestrator")}l6 0l0 10z` }, group);
    const start = Math.min(round.start, ...round.bars.map((bar) => bar.start));
    make("rect", { class: "hit", x: x(start), y: TOP - 3, width: wide(start, round.end), height: 3 * (LANE + GAP) - GAP + 6 }, group);
    make("title", {}, group).textContent = words(round);
    group.addEventListener("pointerenter", () => this.chosen(round));
    group.addEventListener("focus", () => this.chosen(round));
    group.addEventListener("click", () => group.focus());
  }

  #step(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || this.rounds.length === 0) return;
    event.preventDefault();
    const all = [...this.box.querySelectorAll("g.one")], now = all.indexOf(document.activeElement);
    const next = all[Math.min(all.length - 1, Math.max(0, now + steps[event.key]))] ?? all[0];
    next.focus();
    next.scrollIntoView({ inline: "nearest", block: "nearest" });
  }
}

// One round in a sentence.
export function words(round) {
  const said = round.said, took = (round.end - round.start).toFixed(1);
  const proposed = said["outrider.round.proposed"], accepted = said["outrider.round.accepted"];
  const guess = proposed ? `${accepted} of ${proposed} draft tokens accepted` : "no draft tokens";
  const trouble = round.troubles.length ? `; ${round.troubles.map((each) => each.name.replace("outrider.", "")).join(", ")}` : "";
  return `round ${round.number}, ${said["outrider.round.mode"]}: ${guess}, ${said["outrider.round.emitted"]} emitted, ${took} ms${trouble}`;
}
