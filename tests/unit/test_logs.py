"""A line of text for people and a line of JSON for machines say the same."""

import json
import logging
import sys
from typing import Any

import pytest

from outrider import logs
from outrider.config import ConfigError
from outrider.logs import JsonFormatter, TextFormatter


def record(message: str = "request", **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("orchestrator.requests", logging.INFO, __file__, 1, message, (), None)
    made.__dict__.update(more)
    return made


def test_facts_follow_the_message_in_text() -> None:
    line = TextFormatter("target").format(record(facts={"outcome": "stop", "tokens": 3, "error": 'no "room" now'}))
    assert line.endswith('target INFO request outcome=stop tokens=3 error="no \\"room\\" now"')


def test_facts_are_fields_in_json_and_a_line_is_one_object() -> None:
    found = json.loads(JsonFormatter("target").format(record(message="two\nlines", facts={"outcome": "stop"})))
    assert found["time"].endswith("+00:00")
    del found["time"]
    expected = {"level": "INFO", "role": "target", "logger": "orchestrator.requests", "message": "two\nlines"}
    assert found == {**expected, "outcome": "stop"}


def test_a_stack_trace_stays_in_its_line_of_json() -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        line = JsonFormatter("target").format(record(exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "ValueError: broken" in json.loads(line)["exception"]


@pytest.mark.parametrize(("variable", "value"), [("OUTRIDER_LOG_LEVEL", "LOUD"), ("OUTRIDER_LOG_FORMAT", "xml")])
def test_what_is_unknown_is_refused_with_what_is_allowed(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}='{value}': must be one of"):
        logs.start("target", {variable: value})
