// The pieces of the lanes: time axis, phases of a request, rounds. It knows SVG and what a round is, not what is in view.

import { words } from "./details.js";
import { SAID } from "./trace.js";

const SVG = "http://www.w3.org/2000/svg";
const ROWS = [["request", 15], ["orchestrator", 22], ["draft", 22], ["ahead", 22], ["target", 22]];
const NAMES = { ahead: "draft, ahead" };
const THICK = { work: 1, failed: 1, asked: 0.9, wait: 0.6, network: 0.2 };
const HEAD = 18, GAP = 6;
export const PAD = 8, AXIS = 22;

export function make(name, given, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, each] of Object.entries(given)) element.setAttribute(key, String(each));
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

// Where the rows of a request are: by name, and their end. The one of look-ahead is there where there was any.
export function layout(request) {
  const ahead = request.rounds.some((round) => round.exchanges.some((each) => each.name === "draft.prepare"));
  let y = HEAD;
  const rows = {};
  for (const [name, height] of ROWS) {
    if (name === "ahead" && !ahead) continue;
    rows[name] = { y, height };
    y += height + GAP;
  }
  return { rows, bottom: y };
}

export function names(parent, { rows }) {
  for (const [name, { y, height }] of Object.entries(rows)) make("text", { x: 8, y: y + height / 2 + 4 }, parent, NAMES[name] ?? name);
}

// `view`: the request, pixels per millisecond, the times at both edges, the place x of a time, and the layout.
export function axis(parent, { request, pixels, from, to, x, bottom }) {
  const least = 90 / pixels, power = 10 ** Math.floor(Math.log10(least)), begin = request.start;
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  for (let at = Math.max(0, Math.floor((from - begin) / step) * step); at <= to - begin; at += step) {
    make("line", { class: "tick", x1: x(begin + at), x2: x(begin + at), y1: HEAD, y2: bottom + 4 }, parent);
    const said = step >= 1000 ? `${Number((at / 1000).toPrecision(6))} s` : `${Number(at.toPrecision(6))} ms`;
    make("text", { x: x(begin + at) + 3, y: bottom + 16 }, parent, said);
  }
}

export function phases(parent, { request, pixels, x, rows }) {
  const { y, height } = rows.request;
  for (const { name, start, end } of request.phases) {
    const wide = (end - start) * pixels;
    make("rect", { class: "phase", x: x(start), y, width: Math.max(1, wide), height }, parent);
    if (wide > 9 * name.length) make("text", { x: Math.max(x(start), 0) + 4, y: y + height - 4 }, parent, name);
  }
}

// What a round looks like, from its own beginning on.
export function fill(group, round, { request, pixels, rows, bottom }) {
  const wide = (start, end) => Math.max(0.75, (end - start) * pixels), whole = wide(round.start, round.end);
  group.setAttribute("aria-label", words(request, round));
  group.replaceChildren();
  make("rect", { class: `band ${round.number % 2 ? "odd" : "even"}`, y: 1, width: whole, height: bottom - 2 }, group);
  const label = labelled(round, whole);
  if (label) make("text", { class: "label", x: 4, y: 13 }, group, label);
  for (const bar of request.bars(round)) {
    if (whole < 4 && bar.kind !== "work" && bar.kind !== "failed") continue; // too small to be seen
    const { y, height } = rows[bar.lane], tall = height * THICK[bar.kind];
    const place = { x: ((bar.start - round.start) * pixels).toFixed(2), y: y + (height - tall) / 2, height: tall };
    make("rect", { class: `bar ${bar.kind} ${bar.lane}`, width: wide(bar.start, bar.end).toFixed(2), ...place }, group);
  }
  if (request.troubles(round).length) make("path", { class: "trouble", d: `M6 ${bottom - 10}l5 9h-10z` }, group);
}

function labelled({ number, said }, whole) {
  const accepted = said[SAID.proposed] ? `${said[SAID.accepted]}/${said[SAID.proposed]}` : "";
  const both = accepted ? `${number}: ${accepted}` : String(number);
  return [both, accepted].find((each) => each && whole > 7 * each.length + 8) ?? "";
}
