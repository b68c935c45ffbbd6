// The last requests that the orchestrator remembers, as rows of a table. It knows their summaries, not their spans.

import { ms } from "./figures.js";
import { made, row } from "./page.js";

// `open` is called with the trace id of a request that somebody wants to see.
export function rows(requests, open) {
  if (!requests.length) return [made("tr", {}, made("td", { colSpan: 8 }, "none is remembered"))];
  return requests.map((each) => one(each, open));
}

function one(each, open) {
  const when = new Date(Number(BigInt(each.started_unix_ns) / 1000000n)).toLocaleTimeString();
  const time = (us) => (Number(us) ? ms(Number(us) / 1000) : "–");
  const button = made("button", { type: "button", className: "small" }, "open");
  button.setAttribute("aria-label", `open the rounds of the request of ${when}, ${each.completion_tokens} tokens`);
  button.addEventListener("click", () => open(each.trace_id));
  return row([when, each.running ? "runs" : each.outcome, String(each.completion_tokens), String(each.rounds),
    each.proposed ? `${each.accepted} of ${each.proposed}` : "–", time(each.first_token_us), time(each.took_us), button]);
}
