"""What is asked: a few dozen conversations, and which of them come in what order. Pure functions of a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.client import Ask
from outrider.sampling import SamplingParams
from tests.tiny import VOCABULARY

_COUNT = 40
_LENGTHS = (16, 60, 150, 400)
_SPECULATION = (None, None, 0, 4, 8)
"""As ``Ask.draft_tokens``; most ask for what is usual."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request, but for how it is speculated."""

    token_ids: tuple[int, ...]
    temperature: float
    seed: int
    max_new_tokens: int
    logprobs: bool
    ignore_eos: bool

    def ask(self, draft_tokens: int | None, session_id: str, keep_session: bool) -> Ask:
        return Ask(
            token_ids=self.token_ids,
            sampling=SamplingParams(self.temperature),
            seed=self.seed,
            max_new_tokens=self.max_new_tokens,
            logprobs=self.logprobs,
            ignore_eos=self.ignore_eos,
            draft_tokens=draft_tokens,
            session_id=session_id,
            keep_session=keep_session,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation of one or two turns."""

    number: int
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A case to be asked for once; ``first`` is the number of its first request."""

    first: int
    case: Case
    draft_tokens: int | None


def _turn(draw: random.Random, longest: int) -> Turn:
    return Turn(
        token_ids=tuple(draw.randrange(4, VOCABULARY) for _ in range(draw.choice((3, 20, 100)))),
        temperature=draw.choice((0.0, 0.8)),
        seed=draw.getrandbits(64),
        max_new_tokens=draw.choice([length for length in _LENGTHS if length <= longest]),
        logprobs=draw.random() < 0.25,
        ignore_eos=draw.random() < 0.8,
    )


def make_cases(seed: int, count: int = _COUNT) -> tuple[Case, ...]:
    """Different conversations; every third has two turns."""
    draw = random.Random(f"cases/{seed}")
    return tuple(
        Case(number, tuple(_turn(draw, 150 if number % 3 == 0 else 400) for _ in range(2 if number % 3 == 0 else 1)))
        for number in range(count)
    )


def make_jobs(seed: int, cases: Sequence[Case], requests: int) -> tuple[Job, ...]:
    """Jobs with just so many requests, each case about as often as the others."""
    draw = random.Random(f"jobs/{seed}")
    jobs: list[Job] = []
    deck: list[Case] = []
    left = requests
    while left:
        deck = deck or draw.sample(list(cases), len(cases))
        case = deck.pop()
        case = Case(case.number, case.turns[:left])
        jobs.append(Job(requests - left, case, draw.choice(_SPECULATION)))
        left -= len(case.turns)
    return tuple(jobs)
