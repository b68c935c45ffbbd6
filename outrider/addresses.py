"""Addresses in settings, read and checked. It does not know which setting, nor whether anybody listens there."""

import re

_LISTENER = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+)):(\d{1,5})")
_MOST_PORT = 65535


def parse_host_port(text: str) -> tuple[str, int]:
    """Host and port to listen on. Raises ValueError that says what is allowed."""
    match = _LISTENER.fullmatch(text)
    if not match or int(match[3]) > _MOST_PORT:
        raise ValueError(f"host:port with a port up to {_MOST_PORT}, such as 127.0.0.1:50080 or [::]:50080")
    return match[1] or match[2], int(match[3])


def parse_optional(text: str) -> str:
    """An address host:port to listen on, or nothing, as it is. Raises ValueError."""
    return _checked(text, bool(text), "empty")


def parse_listener(text: str) -> str:
    """An address host:port or unix:path to listen on, as it is. Raises ValueError."""
    return _checked(text, not re.fullmatch(r"unix:.+", text), "unix:path")


def _checked(text: str, is_host_port: bool, otherwise: str) -> str:
    try:
        if is_host_port:
            parse_host_port(text)
    except ValueError as error:
        raise ValueError(f"{error}, or {otherwise}") from None
    return text
