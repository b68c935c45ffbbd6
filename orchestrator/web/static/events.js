// Server-sent events of a POST request, which EventSource cannot make. It knows the format, not the events.

// Calls ``heard(kind, data)`` for each event. Throws what the server says of an error before the first one.
export async function ask(path, body, key, signal, heard) {
  const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) throw new Error(await said(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) tell(part, heard);
  }
}

function tell(part, heard) {
  let kind = "message";
  const data = [];
  for (const line of part.split(/\r?\n/)) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length) heard(kind, JSON.parse(data.join("\n")));
}

// JSON of a GET request. Throws what the server says.
export async function get(path, key) {
  const response = await fetch(path, { headers: key ? { Authorization: `Bearer ${key}` } : {} });
  if (!response.ok) throw new Error(await said(response));
  return response.json();
}

async function said(response) {
  try {
    const { error } = await response.json();
    return `${error.code}: ${error.message}${error.retry_after_s ? ` (try again in ${Math.ceil(error.retry_after_s)} s)` : ""}`;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}
