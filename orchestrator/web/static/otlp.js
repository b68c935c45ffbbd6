// OTLP JSON, the form in which traces are saved. Pure: it knows spans, not what they say.

// Objects of a file: one, a list of them, or one a line. Throws an Error in words.
export function parse(text) {
  let objects;
  try {
    const whole = JSON.parse(text);
    objects = Array.isArray(whole) ? whole : [whole];
  } catch {
    try {
      objects = text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
    } catch {
      throw new Error("this is neither JSON nor JSON lines");
    }
  }
  if (!objects.every((each) => Array.isArray(each?.resourceSpans))) throw new Error("this is no OTLP JSON: resourceSpans is missing");
  return objects;
}

function value(field) {
  if ("intValue" in field) return Number(field.intValue);
  if ("arrayValue" in field) return (field.arrayValue.values ?? []).map(value);
  return field.stringValue ?? field.boolValue ?? field.doubleValue ?? null;
}

function attributes(list = []) {
  return Object.fromEntries(list.map((each) => [each.key, value(each.value ?? {})]));
}

function read(span) {
  const wrong = span.status?.code === 2 || span.status?.code === "STATUS_CODE_ERROR";
  return {
    name: String(span.name), trace: String(span.traceId), id: `${span.traceId}/${span.spanId}`,
    parent: span.parentSpanId ? `${span.traceId}/${span.parentSpanId}` : "",
    startNs: BigInt(span.startTimeUnixNano), endNs: BigInt(span.endTimeUnixNano),
    said: attributes(span.attributes),
    events: (span.events ?? []).map((each) => ({ name: each.name, atNs: BigInt(each.timeUnixNano ?? 0), said: attributes(each.attributes) })),
    error: wrong ? span.status.message || "error" : "",
  };
}

// Every span of OTLP objects; times are BigInt nanoseconds. Throws an Error in words.
export function spansOf(objects) {
  try {
    return objects.flatMap((each) => each.resourceSpans)
      .flatMap((each) => each.scopeSpans ?? [])
      .flatMap((each) => each.spans ?? [])
      .map(read);
  } catch (error) {
    throw new Error(`this is no OTLP JSON: ${error.message}`);
  }
}

// Objects that come one after another, as one that can be saved.
export class Saved {
  #parts = new Map(); // spans by resource and scope

  add(objects) {
    for (const { resource, scopeSpans } of objects.flatMap((each) => each.resourceSpans)) {
      for (const { scope, spans } of scopeSpans ?? []) {
        const key = JSON.stringify([resource, scope]);
        if (!this.#parts.has(key)) this.#parts.set(key, { resource, scope, spans: [] });
        this.#parts.get(key).spans.push(...(spans ?? []));
      }
    }
  }

  get text() {
    const parts = [...this.#parts.values()];
    return JSON.stringify({ resourceSpans: parts.map(({ resource, scope, spans }) => ({ resource, scopeSpans: [{ scope, spans }] })) });
  }
}
