"""The line that shares most with a claim goes on, all others are given up, and only the same rule's choices count."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.drafter import Propose
from outrider.inference.branches import adopt, confirmed
from outrider.inference.kv_cache import BlockPool
from outrider.inference.sessions import Ahead, Session, SessionStore
from outrider.sampling import SamplingParams
from outrider.tokens import CacheMiss, Claim
from tests.unit.scripted import VOCAB, Steps, claim_of

COMMITTED = [5, 6, 7, 8, 9]
BLOCK = [1, 2, 3]
TOKENS = st.integers(0, 3)


RULE = SamplingParams(1.0, seed=3)
SAME = Propose(RULE, 5, VOCAB)


def write(session: Session, tokens: Sequence[int]) -> None:
    session.table.reserve(session.table.length + len(tokens))
    session.table.advance(len(tokens))
    session.log.extend(tokens)


def looked_ahead(
    outcomes: Mapping[tuple[int, int], Sequence[int]], rule: SamplingParams = RULE
) -> tuple[SessionStore, Session]:
    """A session after a look-ahead over BLOCK: per outcome (accepted, next token) what its branch chose."""
    store = SessionStore(BlockPool(200), 4, 10.0)
    session = store.blank("a")
    store.touch(session, 0.0)
    write(session, [*COMMITTED, *BLOCK])
    for (accepted, token), chosen in outcomes.items():
        branch = session.fork(len(COMMITTED) + accepted)
        write(branch, [token, *chosen[:-1]])
        branch.ahead = Ahead(len(COMMITTED) + accepted + 1, Propose(rule, 9, VOCAB, chosen=list(chosen)))
    store.check_integrity()
    return store, session


def after(accepted: int, token: int, prefix_len: int = len(COMMITTED)) -> Claim:
    """The claim that follows a verdict."""
    return claim_of([*COMMITTED, *BLOCK[:accepted], token], prefix_len)


OUTCOMES = {(0, 3): [4, 4, 4], (2, 9): [6, 7], (3, 1): [8]}


def test_the_branch_of_the_verdict_is_adopted_with_what_it_chose() -> None:
    store, session = looked_ahead(OUTCOMES)
    assert adopt(session, after(2, 9)) is None
    assert session.log.tokens == [*COMMITTED, 1, 2, 9, 6]
    assert confirmed(session, after(2, 9), SAME) == (6, 7)
    assert (session.branches, len(session.table.blocks), store.pool.held) == ([], 3, 3)
    store.check_integrity()


def test_without_a_branch_for_the_verdict_the_main_line_stays() -> None:
    store, session = looked_ahead(OUTCOMES)
    assert adopt(session, after(2, 5)) is None
    assert session.log.tokens == [*COMMITTED, *BLOCK]
    assert confirmed(session, after(2, 5), SAME) == ()
    assert store.pool.held == 2


def test_a_claim_deep_inside_a_branch_gets_the_rest_of_it() -> None:
    """The next block is being verified already: its tokens are the branch's own."""
    _, session = looked_ahead({(1, 9): [4, 5, 6]})
    claim = claim_of([*COMMITTED, 1, 9, 4], len(COMMITTED))
    assert adopt(session, claim) is None
    assert confirmed(session, claim, SAME) == (5, 6)


def test_the_tail_of_a_round_tells_branches_apart() -> None:
    _, session = looked_ahead({(0, 3): [4, 4], (0, 2): [4, 4]})
    assert adopt(session, claim_of(COMMITTED, 4), tail=(2, 4)) is None
    assert session.log.tokens == [*COMMITTED, 2, 4]


def test_a_prefix_inside_a_branch_is_held_by_the_branch_alone() -> None:
    _, session = looked_ahead(OUTCOMES)
    assert adopt(session, after(2, 9, prefix_len=7)) is None
    assert session.log.tokens[:8] == [*COMMITTED, 1, 2, 9]


def test_a_claim_that_no_line_holds_is_a_miss_and_gives_nothing_up() -> None:
    _, session = looked_ahead(OUTCOMES)
    assert adopt(session, claim_of([*COMMITTED, *BLOCK, 1, 8, 8, 8], 11)) == CacheMiss(8)
    assert adopt(session, claim_of([9, 9, 9, 9, 9], 4)) == CacheMiss(0)
    assert len(session.branches) == 3


def test_choices_of_another_rule_are_not_taken() -> None:
    _, session = looked_ahead(OUTCOMES, rule=SamplingParams(1.0, seed=4))
    adopt(session, after(2, 9))
    assert confirmed(session, after(2, 9), SAME) == ()


def test_a_program_that_cannot_resume_takes_nothing() -> None:
    _, session = looked_ahead(OUTCOMES)
    adopt(session, after(2, 9))
    assert confirmed(session, after(2, 9), Steps()) == ()


def test_a_branch_whose_cache_was_cut_confirms_nothing() -> None:
    _, session = looked_ahead(OUTCOMES)
    adopt(session, after(2, 9))
    session.truncate(3)
    assert confirmed(session, after(2, 9, prefix_len=2), SAME) == ()


@given(
    branches=st.dictionaries(
        st.tuples(st.integers(0, 3), TOKENS), st.lists(TOKENS, min_size=1, max_size=5), max_size=6
    ),
    path=st.lists(TOKENS, min_size=1, max_size=9),
    known=st.integers(0, 9),
)
@settings(max_examples=400)
def test_adoption_keeps_the_longest_line_and_confirms_only_what_was_chosen_there(
    branches: dict[tuple[int, int], list[int]], path: list[int], known: int
) -> None:
    """Against brute force over all lines; blocks add up, and nothing of the other lines is left."""
    store, session = looked_ahead(branches)
    starts = {(*COMMITTED, *BLOCK[:n], t, *tokens): len(COMMITTED) + n + 1 for (n, t), tokens in branches.items()}
    lines = [(*COMMITTED, *BLOCK), *(line[:-1] for line in starts)]
    tokens = (*COMMITTED, *path)
    claim = claim_of(tokens, min(known, len(tokens) - 1))
    able = [line for line in lines if line[: claim.prefix_len] == tokens[: claim.prefix_len]]
    miss = adopt(session, claim)
    store.check_integrity()
    assert (miss is None) == bool(able)
    if able:
        kept = tuple(session.log.tokens)
        assert kept == max(able, key=lambda line: shared(line, tokens))
        assert (session.branches, store.pool.held) == ([], len(session.table.blocks))
        full = [line for line, start in starts.items() if line[:-1] == kept and start <= len(tokens)]
        rests = [line[len(tokens) :] for line in full if line[: len(tokens)] == tokens]
        assert confirmed(session, claim, SAME) == (rests[0] if rests else ())


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
