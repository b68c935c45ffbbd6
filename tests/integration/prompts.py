"""Seeded prompts."""

import random

from tests.tiny import VOCABULARY


def prompt_of(length: int, name: object = 0) -> list[int]:
    """Ids without special tokens, the same for the same name; a longer prompt begins with the shorter one."""
    return [random.Random(f"{name}/{i}").randrange(4, VOCABULARY) for i in range(length)]
