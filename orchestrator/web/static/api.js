// Calls to the orchestrator that served this page: JSON in and out, and an answer as events. It knows no page.

// What a call ended with, in the orchestrator's words. `field` is the field of the request that was wrong, or "".
export class CallError extends Error {
  constructor({ code, message, field = "", retry_after_s: retryAfterS = 0 }) {
    super(message);
    this.code = code;
    this.field = field;
    this.retryAfterS = retryAfterS;
  }

  get words() {
    return this.retryAfterS ? `${this.message} (try again in ${Math.ceil(this.retryAfterS)} s)` : this.message;
  }
}

export function headers(key, more = {}) {
  if (key && !/^[!-~]+$/.test(key)) {
    throw new CallError({ code: "INVALID_ARGUMENT", field: "key", message: "API key: printable ASCII without spaces" });
  }
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function failure(response) {
  const text = await response.text();
  try {
    return new CallError(JSON.parse(text).error);
  } catch {
    return new CallError({ code: String(response.status), message: `the server answered ${response.status}: ${text.slice(0, 200)}` });
  }
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError({ code: "UNAVAILABLE", message: "the orchestrator cannot be reached" });
  }
  if (!response.ok) throw await failure(response);
  return response;
}

// The text of an answer to a GET.
export async function get(path, key) {
  return (await call(path, { headers: headers(key) })).text();
}

// Asks for an answer; yields { name, data } of each event. Throws CallError, also for an `error` event.
export async function* generate(request, key, signal) {
  const options = { method: "POST", body: JSON.stringify(request), signal };
  const response = await call("api/generate", { ...options, headers: headers(key, { "Content-Type": "application/json" }) });
  let over = false;
  for await (const event of events(response.body)) {
    if (event.name === "error") throw new CallError(event.data);
    over ||= event.name === "finished";
    yield event;
  }
  if (!over) throw new CallError({ code: "UNAVAILABLE", message: "the stream ended before the answer did" });
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      yield* parts.map(event).filter((each) => each.data !== undefined);
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError({ code: "UNAVAILABLE", message: "the connection broke" });
  } finally {
    reader.cancel().catch(() => {});
  }
}

// One event of the stream. Lines that begin with a colon are signs of life.
function event(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) found.name = line.slice(7);
    if (line.startsWith("data: ")) found.data = JSON.parse(line.slice(6));
  }
  return found;
}
