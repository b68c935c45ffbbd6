// Small helpers for the page. All text goes in as text.

export const at = (id) => document.getElementById(id);

// An element with properties and children; strings become text.
export function made(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// Pairs of name and words, as the entries of a list of descriptions.
export function describe(list, pairs) {
  list.replaceChildren(...pairs.map(([name, words]) => made("div", {}, made("dt", {}, name), made("dd", {}, words))));
}

// A row of a table; the first cell names it.
export function row(cells, kind = "td") {
  const cell = (content, place) => made(place ? kind : "th", place ? {} : { scope: kind === "th" ? "col" : "row" }, content);
  return made("tr", {}, ...cells.map(cell));
}

// The last part of a path or of a hub's id.
export const short = (model) => model.split("/").filter(Boolean).pop() ?? model;
