"""Waiting for what has to happen in the end, instead of for a time in which it surely has. It knows no service."""

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 20.0
"""Longest wait for anything that has to happen in the end, on a noisy machine."""


async def eventually(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds. Raises AssertionError with ``what`` when it does not within the bound."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"did not happen within {within_s:g} s: {what}"
        await asyncio.sleep(0.002)


async def until(ask: Callable[[], Awaitable[object]], what: str, within_s: float = PATIENCE_S) -> None:
    """Like ``eventually``, for what has to be asked for."""
    end = time.monotonic() + within_s
    while not await ask():
        assert time.monotonic() < end, f"did not happen within {within_s:g} s: {what}"
        await asyncio.sleep(0.02)
