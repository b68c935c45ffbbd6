"""Configuration as frozen dataclasses, read from a mapping that the caller passes in.

Each field is one variable, OUTRIDER_<FIELD>. It does not read the environment itself: ``__main__`` and the
command line do.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
PREFIX = "OUTRIDER_"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class ConfigError(ValueError):
    """A variable has a value that is not allowed; the message names both."""


def parse_bytes(text: str) -> int:
    """Number of bytes from "1073741824", "512MiB" or "1G"."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError("a size such as 512MiB or 2GiB")
    return int(match[1]) * _UNITS[match[2].upper()]


def parse_budget(text: str) -> int:
    """Like ``parse_bytes``; 0 for "auto"."""
    if text.strip().lower() == "auto":
        return 0
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ValueError(f"auto or {error}") from None


def _parse_bool(text: str) -> bool:
    try:
        return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
    except KeyError:
        raise ValueError("true or false") from None


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isnan(value):
        raise ValueError  # it would be inside any bounds
    return value


def _number(kind: Callable[[str], Any], name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(name) from None

    return parse


_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: _number(int, "a whole number"),
    float: _number(_parse_float, "a number"),
    bool: _parse_bool,
}


def setting(default: Any = dataclasses.MISSING, *, parse: Callable[[str], Any] | None = None, **bounds: Any) -> Any:
    """A field with bounds: ``least``, ``most`` or ``choices``, checked for values that are given; ``engine`` is the
    only one that the field means something to."""
    return dataclasses.field(default=default, metadata={"parse": parse, **bounds})


def _check(variable: str, value: Any, bounds: Mapping[str, Any]) -> None:
    least, most, choices = bounds.get("least"), bounds.get("most"), bounds.get("choices")
    if choices is not None and value not in choices:
        raise ConfigError(f"{variable}={value!r}: must be one of {', '.join(choices)}")
    if least is not None and value < least:
        raise ConfigError(f"{variable}={value!r}: must be at least {least}")
    if most is not None and value > most:
        raise ConfigError(f"{variable}={value!r}: must be at most {most}")


def load(kind: type[T], environment: Mapping[str, str]) -> T:
    """Build a configuration from variables. Raises ConfigError; unset variables keep their defaults."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        variable = PREFIX + field.name.upper()
        text = environment.get(variable)
        if text is None:
            if field.default is dataclasses.MISSING:
                raise ConfigError(f"{variable} is not set and has no default")
            continue
        parse = field.metadata.get("parse") or _PARSERS[field.type]
        try:
            values[field.name] = parse(text)
        except ValueError as error:
            raise ConfigError(f"{variable}={text!r}: must be {error}") from None
        _check(variable, values[field.name], field.metadata)
    return kind(**values)
