// Spans of OTLP JSON in, one request as rounds on one clock out. Pure: it knows no page.
// A replica's time is placed inside its exchange (half of the network's share, queue, passes), so lanes of three
// machines need no common clock.

const LANES = { "draft.propose": "draft", "draft.prepare": "draft", "target.verify": "target" };
const TROUBLE = new Set(["outrider.cache_miss", "outrider.failover", "outrider.draft_fault"]);

function value(field) {
  if ("intValue" in field) return Number(field.intValue);
  if ("arrayValue" in field) return (field.arrayValue.values ?? []).map(value);
  return field.stringValue ?? field.boolValue ?? field.doubleValue ?? null;
}

function attributes(list) {
  return Object.fromEntries((list ?? []).map((each) => [each.key, value(each.value ?? {})]));
}

// Objects of a file: one, a list of them, or one a line. Throws an Error in words.
export function parse(text) {
  try {
    const whole = JSON.parse(text);
    return Array.isArray(whole) ? whole : [whole];
  } catch {
    try {
      return text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    } catch {
      throw new Error("this file is neither JSON nor JSON lines");
    }
  }
}

// Every span of OTLP objects; times stay BigInt nanoseconds.
export function spansOf(objects) {
  const found = [];
  for (const object of objects) {
    for (const resource of object.resourceSpans ?? []) {
      for (const scope of resource.scopeSpans ?? []) {
        for (const span of scope.spans ?? []) {
          found.push({
            name: span.name, trace: span.traceId, id: span.spanId, parent: span.parentSpanId ?? "",
            start: BigInt(span.startTimeUnixNano), end: BigInt(span.endTimeUnixNano),
            attributes: attributes(span.attributes),
            events: (span.events ?? []).map((each) => ({ name: each.name, attributes: attributes(each.attributes) })),
          });
        }
      }
    }
  }
  return found;
}

// Of a file with several traces, the spans of the last request of an orchestrator.
export function lastRequest(spans) {
  const root = spans.filter((span) => span.name === "generate").sort((a, b) => (a.start < b.start ? -1 : 1)).at(-1);
  const trace = root?.trace ?? spans.find((span) => span.name === "round")?.trace;
  if (trace === undefined) throw new Error("this trace holds no request of Outrider");
  return spans.filter((span) => span.trace === trace);
}

// Milliseconds since ``base``.
function ms(nanoseconds, base) {
  return Number(nanoseconds - base) / 1e6;
}

function bar(span, base) {
  const start = ms(span.start, base), end = ms(span.end, base), said = span.attributes;
  const network = (said["outrider.network_us"] ?? 0) / 1000;
  const queue = (said["outrider.queue_us"] ?? 0) / 1000, forward = (said["outrider.forward_us"] ?? 0) / 1000;
  const known = said["outrider.forward_us"] !== undefined;
  const begins = known ? Math.min(end, Math.max(start, span.name === "target.verify" && !network ? end - queue - forward : start + network / 2)) : end;
  const computes = Math.min(end, begins + queue);
  return { lane: LANES[span.name], name: span.name, start, end, begins, computes, ends: Math.min(end, computes + forward), said };
}

// Rounds by number, each with its bars and its troubles. ``base`` is where the clock begins.
export function rounds(spans, base) {
  const below = Map.groupBy ? Map.groupBy(spans, (span) => span.parent) : groupBy(spans);
  return spans.filter((span) => span.name === "round").map((span) => {
    const children = (below.get(span.id) ?? []).filter((each) => each.name in LANES);
    const events = [span, ...children].flatMap((each) => each.events).filter((each) => TROUBLE.has(each.name));
    const said = span.attributes;
    return {
      number: said["outrider.round"], start: ms(span.start, base), end: ms(span.end, base), said,
      bars: children.map((child) => bar(child, base)), troubles: events,
    };
  }).sort((a, b) => a.number - b.number);
}

function groupBy(spans) {
  const groups = new Map();
  for (const span of spans) groups.set(span.parent, [...(groups.get(span.parent) ?? []), span]);
  return groups;
}

// The moment from which a request's time counts.
export function beginning(spans) {
  return spans.reduce((first, span) => (first === null || span.start < first ? span.start : first), null) ?? 0n;
}

// The fate of each token of a round: accepted ones, then the target's own, then what was rejected.
export function fates(said) {
  const accepted = said["outrider.round.accepted"] ?? 0, proposed = said["outrider.round.proposed"] ?? 0;
  const texts = said["outrider.round.texts"] ?? [], block = said["outrider.round.block_texts"] ?? [];
  const own = proposed === 0 ? "plain" : said["outrider.round.next_token_kind"] ?? "correction";
  return {
    emitted: texts.map((text, place) => ({ text, fate: place < accepted ? "accepted" : own })),
    rejected: block.slice(accepted).map((text) => ({ text, fate: "rejected" })),
  };
}
