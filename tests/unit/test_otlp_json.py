"""What is written is what is read again, in each of the forms in which collectors save traces."""

import json
from typing import Any

import pytest

from outrider import otlp_json
from tests.unit.recorded import Kept


def saved() -> tuple[Kept, dict[str, Any]]:
    kept = Kept()
    root = kept.begin("generate")
    child = root.child("round", root.kind, {"a": 1, "b": [1, 2], "c": "x", "d": True, "e": 0.5})
    child.add_event("missed", {"why": "lost"})
    child.add_link(root.context)
    child.end()
    root.end()
    return kept, otlp_json.write(kept.spans)


def test_a_span_comes_back_as_it_was() -> None:
    kept, data = saved()
    child, root = otlp_json.read(json.dumps(data))
    light = kept.light[0]
    assert (child.name, child.trace_id, child.span_id) == (
        "round",
        f"{light.context.trace_id:032x}",
        f"{light.context.span_id:016x}",
    )
    assert (child.parent_id, root.parent_id) == (root.span_id, "")
    assert child.attributes == {"a": 1, "b": [1, 2], "c": "x", "d": True, "e": 0.5}
    assert [(event.name, event.attributes) for event in child.events] == [("missed", {"why": "lost"})]
    assert (child.start_ns, child.end_ns) == (light.start_ns, light.end_ns)


def test_ids_are_hexadecimal_everywhere() -> None:
    _, data = saved()
    text = json.dumps(data)
    spans = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    (link,) = spans[0]["links"]
    assert link["spanId"] == spans[1]["spanId"]
    assert "==" not in text


@pytest.mark.parametrize(
    "form",
    [
        lambda data: json.dumps(data, indent=2),
        lambda data: json.dumps([data, data]),
        lambda data: json.dumps(data) + "\n\n" + json.dumps(data) + "\n",
    ],
    ids=["object", "list", "lines"],
)
def test_every_form_of_file_is_read(form: Any) -> None:
    _, data = saved()
    assert {span.name for span in otlp_json.read(form(data))} == {"generate", "round"}


@pytest.mark.parametrize("text", ["", "{", "no", '[{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}]', "[1]"])
def test_what_is_no_trace_is_refused_in_words(text: str) -> None:
    if text == "":
        assert otlp_json.read(text) == []
        return
    with pytest.raises(ValueError, match="this is n"):
        otlp_json.read(text)


def test_a_line_that_was_torn_costs_that_line_only(caplog: pytest.LogCaptureFixture) -> None:
    line = json.dumps(saved()[1])
    assert len(otlp_json.read(f"{line}\n{line[:50]}\n{line}\n")) == 4
    assert "line 2" in caplog.text
