"""Where a process logs, how much, and in which form: a line of text or a line of JSON for each event.

A record may carry ``facts`` (``extra={"facts": {...}}``): in text they follow the message as name=value, in JSON they
are fields. It does not know what is logged.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from outrider.config import PREFIX, ConfigError

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_FORMATS = ("text", "json")


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "facts", {}))


class TextFormatter(logging.Formatter):
    """One line for people."""

    def __init__(self, role: str) -> None:
        super().__init__(f"%(asctime)s {role} %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The message and its facts."""
        facts = "".join(f" {name}={_text(value)}" for name, value in _facts(record).items())
        return super().formatMessage(record) + facts


def _text(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(character.isspace() or character == '"' for character in text) else text


class JsonFormatter(logging.Formatter):
    """One object a line, for machines."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        event = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "role": self._role,
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


def _chosen(environment: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> tuple[str, str]:
    """The choice, or the default with words of what is wrong."""
    variable = PREFIX + name
    wanted = environment.get(variable, default)
    found = next((choice for choice in choices if choice.lower() == wanted.lower()), None)
    return found or default, "" if found else f"{variable}={wanted!r}: must be one of {', '.join(choices)}"


def start(role: str, environment: Mapping[str, str]) -> None:
    """Log to stderr. Raises ConfigError for an unknown level or form, when logging has begun so that it can be read."""
    level, wrong_level = _chosen(environment, "LOG_LEVEL", "INFO", _LEVELS)
    form, wrong_form = _chosen(environment, "LOG_FORMAT", "text", _FORMATS)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(role) if form == "json" else TextFormatter(role))
    logging.basicConfig(level=level, handlers=[handler])
    for wrong in (wrong_level, wrong_form):
        if wrong:
            raise ConfigError(wrong)
