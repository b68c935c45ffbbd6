"""Whatever a client has heard of an answer, and wherever it goes on, it hears the rest, and nothing twice."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.answer import Answer, Ending
from orchestrator.recital import Recital
from orchestrator.totals import Round
from outrider.errors import InvalidArgument

TOKENS = tuple(range(24))


def decode(ids: Sequence[int]) -> str:
    """Three tokens make a text of four characters, so characters are held back; "x" begins the stop text."""
    text = "".join(f"<{i:02}>" if i % 7 else "<xy>" for i in ids)
    return text if len(ids) % 3 == 0 else text[:-2] + "\N{REPLACEMENT CHARACTER}"


def answer() -> Answer:
    return Answer(Ending(len(TOKENS), frozenset(), ("xz",)), decode)


def done(tokens: tuple[int, ...]) -> Round:
    return Round(0, (), 0, tokens, tuple(-float(t) for t in tokens), 0, 0)


def heard_after(count: int) -> str:
    made = answer()
    made.extend(TOKENS[:count])
    return made.take_text()


@given(st.data())
def test_the_rest_is_told_wherever_rounds_are_cut(data: st.DataObject) -> None:
    heard = data.draw(st.integers(0, len(TOKENS)))
    given_tokens = data.draw(st.integers(0, heard))
    cuts = data.draw(st.sets(st.integers(given_tokens, len(TOKENS))))
    made = answer()
    made.extend(TOKENS[:given_tokens])
    recital = Recital(made, heard)
    text, tokens, logprobs = heard_after(heard), list(TOKENS[:heard]), [-float(t) for t in TOKENS[:heard]]
    for start, end in pairwise(sorted(cuts | {given_tokens, len(TOKENS)})):
        made.extend(TOKENS[start:end])
        part = recital.part(done(TOKENS[start:end]))
        if part is not None:
            text, tokens, logprobs = text + part.text, [*tokens, *part.tokens], [*logprobs, *part.logprobs]
    recital.finish()
    assert text == recital.text == decode(TOKENS)
    assert tuple(tokens) == TOKENS
    assert logprobs == [-float(t) for t in TOKENS]


def test_a_client_that_claims_more_than_there_is_is_told_so() -> None:
    made = Answer(Ending(4), decode)
    recital = Recital(made, 5)
    made.extend(TOKENS[:4])
    assert recital.part(done(TOKENS[:4])) is None
    with pytest.raises(InvalidArgument, match="4 tokens, fewer than 5") as caught:
        recital.finish()
    assert caught.value.field == "resume_from"
