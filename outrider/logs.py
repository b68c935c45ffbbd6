"""Where a process logs and how much. It does not know what is logged."""

import logging
from collections.abc import Mapping

from outrider.config import PREFIX, ConfigError

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_VARIABLE = PREFIX + "LOG_LEVEL"


def start(role: str, environment: Mapping[str, str]) -> None:
    """Log to stderr. Raises ConfigError for an unknown level, when logging has begun so that it can be read."""
    wanted = environment.get(_VARIABLE, "INFO")
    known = wanted.upper() in _LEVELS
    logging.basicConfig(
        level=wanted.upper() if known else logging.INFO, format=f"%(asctime)s {role} %(levelname)s %(message)s"
    )
    if not known:
        raise ConfigError(f"{_VARIABLE}={wanted!r}: must be one of {', '.join(_LEVELS)}")
