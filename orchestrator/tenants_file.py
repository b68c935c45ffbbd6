"""The file of tenants: TOML in, checked values out. It does not know calls.

An error names file, table and key, and never the value: that may be an API key in the wrong place.
"""

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.api_keys import read_key
from orchestrator.limits import Limits
from outrider.config import ConfigError
from outrider.errors import InvalidArgument
from outrider.wire import check_tenant

_MOST = 10**9
_LEAST_RATE = 0.01


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _MOST


def _is_rate(value: Any) -> bool:
    return _is_amount(value) and (value == 0 or value >= _LEAST_RATE)


_ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_answers": (_is_whole, f"a whole number from 0 to {_MOST}"),
    "tokens_per_s": (_is_rate, f"0 or a number from {_LEAST_RATE} to {_MOST}"),
    "burst_tokens": (_is_amount, f"a number from 0 to {_MOST}"),
}


@dataclass(frozen=True, slots=True)
class TenantsFile:
    """``limits`` of every tenant that has none of its own; digests of ``keys`` with their tenants, None where no
    tenant has any."""

    limits: Limits
    own: dict[str, Limits]
    keys: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table and where it is."""

    file: str
    name: str
    values: dict[str, Any]

    def wrong(self, key: str, words: str) -> ConfigError:
        place = ".".join(filter(None, (self.name, key)))
        return ConfigError(f"OUTRIDER_TENANTS={self.file}: {place}: {words}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        for key in self.values:
            if key not in known:
                raise self.wrong(key, f"is not known; known are {', '.join(known)}")

    def table(self, key: str) -> "_Table":
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise self.wrong(key, "must be a table")
        return _Table(self.file, ".".join(filter(None, (self.name, key))), values)

    def limits(self, default: Limits) -> Limits:
        own = {key: value for key, value in self.values.items() if key in _ALLOWED}
        for key, value in own.items():
            allowed, words = _ALLOWED[key]
            if not allowed(value):
                raise self.wrong(key, f"must be {words}")
        return replace(default, **own)

    def digests(self) -> list[str]:
        keys = self.values.get("keys", [])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise self.wrong("keys", "must be a list of strings")
        return [self._digest(place, key) for place, key in enumerate(keys)]

    def _digest(self, place: int, key: str) -> str:
        try:
            return read_key(key)
        except ValueError as error:
            raise self.wrong(f"keys[{place}]", f"must be {error}") from None


def read_tenants(path: str) -> TenantsFile:
    """The checked file. Raises ConfigError."""
    root = _Table(path, "", _parse(path))
    root.refuse_unknown(("limits", "tenants"))
    general, tenants = root.table("limits"), root.table("tenants")
    general.refuse_unknown(_ALLOWED)
    limits = general.limits(Limits())
    tables = {name: _tenant(tenants, name) for name in tenants.values}
    own = {name: _own_limits(table, limits) for name, table in tables.items()}
    return TenantsFile(limits, own, _keys(tables))


def _parse(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"OUTRIDER_TENANTS={path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"OUTRIDER_TENANTS={path}: is not TOML: {error}") from None


def _tenant(tenants: _Table, name: str) -> _Table:
    try:
        check_tenant(name)
    except InvalidArgument as error:
        raise tenants.wrong(name, error.message) from None
    table = tenants.table(name)
    table.refuse_unknown(("keys", *_ALLOWED))
    return table


def _own_limits(table: _Table, default: Limits) -> Limits:
    limits = table.limits(default)
    if "burst_tokens" in table.values and not limits.tokens_per_s:
        raise table.wrong("burst_tokens", "needs tokens_per_s")
    return limits


def _keys(tables: dict[str, _Table]) -> dict[str, str] | None:
    """None only where no table speaks of keys: an empty list must not open the door to everybody."""
    if not any("keys" in table.values for table in tables.values()):
        return None
    found: dict[str, tuple[str, str]] = {}
    for name, table in tables.items():
        for place, digest in enumerate(table.digests()):
            if digest in found:
                raise table.wrong(f"keys[{place}]", f"is {found[digest][1]} too")
            found[digest] = name, f"{table.name}.keys[{place}]"
    return {digest: name for digest, (name, _) in found.items()}
