// One answer beside the same one of the target alone: how much faster, and whether the tokens are the same. Pure.

import { ms, per } from "./figures.js";

// The same request, of the target alone.
export function alone(request, seed) {
  return { ...request, sampling: { ...request.sampling, seed }, speculation: { mode: "SPECULATION_MODE_OFF" } };
}

// In words. `ids` are the tokens of an answer, `sums` its figures. What a prompt took is left out of the speed-up:
// the second answer finds the prompt of the first one cached.
export function compared(one, plain) {
  const ratio = plain.sums.tokenMs / one.sums.tokenMs;
  const fast = Number.isFinite(ratio) && ratio > 0
    ? `${ratio.toFixed(2)} times as fast as the target alone, per token after the first: ${ms(one.sums.tokenMs)} against ${ms(plain.sums.tokenMs)}. `
    : "";
  return `${fast}Whole requests: ${per(one.sums.perSecond)} and ${per(plain.sums.perSecond)} tokens/s. ${same(one.ids, plain.ids)}`;
}

function same(one, other) {
  const place = one.findIndex((id, at) => id !== other[at]);
  if (place < 0 && one.length === other.length) return `All ${one.length} tokens are identical.`;
  return `The tokens are NOT identical: they differ from token ${place < 0 ? one.length : place} on.`;
}
