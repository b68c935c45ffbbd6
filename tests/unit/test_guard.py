"""Calls are counted where they belong, and those beyond what may run at once are refused."""

from typing import Any

import pytest

from outrider.errors import ResourceExhausted
from outrider.guard import Guard

NOBODY: Any = None


def test_a_method_with_places_is_refused_when_all_are_taken_and_free_again_after() -> None:
    guard = Guard(places={"/a/Watch": 2}, most=3)
    for method in ("/a/Watch", "/a/Watch", "/a/Check", "/a/Check", "/a/Generate"):
        guard.enter(NOBODY, method)
    with pytest.raises(ResourceExhausted, match="2 calls of a/Watch are running already"):
        guard.enter(NOBODY, "/a/Watch")
    with pytest.raises(ResourceExhausted, match="3 calls are running already"):
        guard.enter(NOBODY, "/a/Check")
    for method in ("/a/Watch", "/a/Generate"):
        guard.leave(method)
        guard.enter(NOBODY, method)


def test_without_numbers_any_number_may() -> None:
    guard = Guard()
    for _ in range(10_000):
        guard.enter(NOBODY, "/a/Check")
