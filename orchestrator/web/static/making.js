// One answer of the orchestrator, shown as it comes. It knows events and the view, not the form.

import { generate } from "./api.js";
import { Progress, sumsOf } from "./figures.js";
import { Saved, spansOf } from "./otlp.js";
import { Request } from "./trace.js";

const sums = ({ request, progress }) => (request.rounds.length ? sumsOf(request) : progress.sums);

// Resolves to all that is known of it when it is complete; throws CallError, or AbortError when it was stopped.
export async function make(body, key, signal, view) {
  const one = { body, seed: "", session: "", ids: [], text: "", progress: new Progress(performance.now()), request: new Request(), saved: new Saved() };
  try {
    for await (const { name, data } of generate(body, key, signal)) {
      if (name === "started") started(one, data, view);
      if (name === "delta") delta(one, data, view);
      if (name === "spans") spans(one, data, view);
      view.soon(() => sums(one));
    }
  } finally {
    view.answer.finish();
    view.draw(true, one.session && sums(one));
  }
  return { ...one, sums: sums(one) };
}

function started(one, data, view) {
  [one.seed, one.session] = [data.seed, data.session_id];
  view.clear(one.request, () => one.saved.text, one.session);
}

function delta(one, data, view) {
  one.ids.push(...data.token_ids);
  one.text += data.text;
  one.progress.delta(data, performance.now());
  if (one.request.phases.length) view.answer.text(data.text);
  else view.answer.plain(data.text); // nothing is recorded here
}

function spans(one, data, view) {
  const told = one.request.rounds.length;
  one.saved.add([data]);
  one.request.add(spansOf([data]));
  for (const round of one.request.rounds.slice(told)) view.answer.round(round);
}

// An answer that was shown before.
export function back(one, view) {
  view.clear(one.request, () => one.saved.text, one.session);
  for (const round of one.request.rounds) view.answer.round(round);
  if (one.request.rounds.length) view.answer.text(one.text);
  else view.answer.plain(one.text);
  view.answer.finish();
  view.draw(false, one.sums);
}
