// The form: what it asks for, and which of its fields an error is about. It knows the page and the request's fields.

import { at } from "./page.js";

const FIELDS = [
  [/^(prompt|chat|input)/, "prompt"], [/^max_new_tokens/, "max"], [/^sampling\.temperature/, "temperature"],
  [/^sampling\.seed/, "seed"], [/^speculation/, "k"], [/^key$/, "key"],
];

// The request that the form describes. The orchestrator checks it; an empty field is left to the orchestrator.
export function request() {
  const value = (id) => at(id).value.trim(), mode = at("mode").value, text = at("prompt").value;
  const given = (entries) => Object.fromEntries(entries.filter(([, each]) => each !== ""));
  return {
    ...(at("kind").value === "chat" ? { chat: { messages: [{ role: "user", content: text }] } } : { prompt: text }),
    ...given([["max_new_tokens", value("max")]]),
    sampling: given([["temperature", value("temperature")], ["seed", value("seed")]]),
    speculation: { mode: `SPECULATION_MODE_${mode}`, ...(mode === "FIXED" ? given([["draft_tokens", value("k")]]) : {}) },
  };
}

// Take back what was said of fields.
export function allRight() {
  for (const element of at("ask").querySelectorAll("[aria-invalid]")) {
    element.removeAttribute("aria-invalid");
    element.setAttribute("aria-describedby", element.id === "prompt" ? "ask-hint" : "");
  }
}

// Mark the field that an error names, if the form has it, and go there.
export function wrong(field) {
  const id = FIELDS.find(([pattern]) => pattern.test(field))?.[1];
  if (id === undefined || at(id).disabled) return;
  at(id).setAttribute("aria-invalid", "true");
  at(id).setAttribute("aria-describedby", "status");
  at(id).focus();
}
