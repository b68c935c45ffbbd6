"""The acceptance loop gives the target's own text, whatever draft and caches do, and counts by definition."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import INVALID_SPAN

from orchestrator.answer import Answer, Ending, FinishReason
from orchestrator.caches import CacheView
from orchestrator.drafting import Drafting
from orchestrator.plans import Drafter, Observation, Plan, Situation
from orchestrator.session import Generation, Limits, Policy
from orchestrator.totals import Round
from outrider.errors import OutriderError, ProtocolViolation, Unavailable
from outrider.tokens import CacheMiss, Claim, TokenLog
from tests.unit.peers import (
    Behaviour,
    FakeDraft,
    FakeTarget,
    empty,
    failing,
    forgetful,
    half_right,
    lying,
    overlong,
    right,
    wrong,
)
from tests.unit.scripted import continuation

PROMPT = (3, 1, 4, 1, 5)
BEHAVIOURS: tuple[Behaviour, ...] = (right, half_right, wrong, empty, overlong, failing, lying, forgetful)


def letters(ids: Sequence[int]) -> str:
    return "".join(chr(97 + i) for i in ids)


@dataclass
class Scripted:
    """Follows a list of plans, again and again; blocks are cut to what the situation allows, as the controller does.
    ``breaks`` says in turn whether a run that goes on gives way to the next plan."""

    plans: Sequence[Plan]
    breaks: Sequence[bool] = (False,)
    looked: int = 0
    asked: list[Situation] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)

    def decide(self, situation: Situation) -> Plan:
        plan = self.plans[len(self.asked) % len(self.plans)]
        self.asked.append(situation)
        most = min(plan.draft_tokens, situation.max_draft_tokens, situation.remaining - 1)
        if plan.drafter is Drafter.MODEL and not situation.draft_available:
            most = 0
        if most <= 0:
            return Plan(run=plan.run)
        return replace(plan, draft_tokens=most, fanout=plan.fanout[: most + 1])

    def break_off(self, situation: Situation) -> Plan | None:
        self.looked += 1
        return self.decide(situation) if self.breaks[self.looked % len(self.breaks)] else None

    def observe(self, seen: Observation) -> None:
        self.seen.append(seen)


def blocks_of(k: int) -> Policy:
    """Blocks of k tokens, or plain rounds in runs."""
    return Scripted([Plan(Drafter.MODEL, k) if k else Plan(run=15)])


def generation(
    draft: FakeDraft,
    target: FakeTarget,
    k: int = 4,
    most: int = 20,
    end_ids: Sequence[int] = (),
    stops: tuple[str, ...] = (),
    views: tuple[int, int] = (0, 0),
    policy: Policy | None = None,
) -> Generation:
    log = TokenLog(PROMPT)
    return Generation(
        log=log,
        answer=Answer(Ending(most, frozenset(end_ids), stops), letters),
        policy=policy or blocks_of(k),
        limits=Limits(16 if k or policy else 0),
        drafting=Drafting(log, draft, CacheView(views[0])),
        target=target,
        target_view=CacheView(views[1]),
        span=INVALID_SPAN,
    )


async def finish(made: Generation) -> list[Round]:
    return [done async for done in made.rounds()]


async def text_of(made: Generation) -> tuple[list[int], str, FinishReason | None]:
    await finish(made)
    return made.answer.tokens, made.answer.take_text(), made.answer.finished


async def alone(most: int = 20, end_ids: Sequence[int] = (), stops: tuple[str, ...] = ()) -> object:
    """The answer without speculation."""
    return await text_of(generation(FakeDraft(), FakeTarget(), 0, most, end_ids, stops))


async def test_the_target_alone_decodes_greedily() -> None:
    tokens = continuation(PROMPT, 20)
    assert await alone() == (tokens, letters(tokens), FinishReason.LENGTH)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("behave", BEHAVIOURS)
async def test_no_draft_behaviour_changes_the_answer(behave: Behaviour, k: int) -> None:
    assert await text_of(generation(FakeDraft([behave]), FakeTarget(), k)) == await alone()


fanouts = st.lists(st.integers(0, 3), min_size=17, max_size=17).map(tuple)
plans = st.one_of(
    st.builds(Plan, run=st.integers(0, 15)),
    st.builds(Plan, st.sampled_from([Drafter.MODEL, Drafter.NGRAM]), st.integers(1, 9)),
    st.builds(Plan, st.just(Drafter.MODEL), st.integers(1, 9), st.just(True), fanouts),
)
shrinks = st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=8)


@given(
    script=st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=6),
    plans=st.lists(plans, min_size=1, max_size=5),
    late=st.booleans(),
    most=st.integers(1, 30),
    draft_evictions=shrinks,
    target_evictions=shrinks,
    views=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    stop=st.lists(st.text(alphabet="abcdefghijklmnopqrstuvwxyz{|}~", min_size=1, max_size=2), max_size=2),
    max_run=st.integers(0, 20),
    breaks=st.lists(st.booleans(), min_size=1, max_size=5),
)
@settings(max_examples=300)
async def test_no_mixture_of_drafts_evictions_and_wrong_beliefs_changes_the_answer(
    script: list[Behaviour],
    plans: list[Plan],
    late: bool,
    most: int,
    draft_evictions: list[int | None],
    target_evictions: list[int | None],
    views: tuple[int, int],
    stop: list[str],
    max_run: int,
    breaks: list[bool],
) -> None:
    """Caches shrink before any call, a CacheMiss can come at any time, first beliefs may be plain wrong, runs give way
    to whatever comes next."""
    draft = FakeDraft(script, evict=lambda call: draft_evictions[call % len(draft_evictions)], late=late)
    target = FakeTarget(evict=lambda call: target_evictions[call % len(target_evictions)], max_run=max_run)
    made = generation(draft, target, 16, most, stops=tuple(stop), views=views, policy=Scripted(plans, breaks))
    assert await text_of(made) == await alone(most, stops=tuple(stop))
    assert made.log.tokens == [*PROMPT, *made.answer.tokens]


@pytest.mark.parametrize("offset", range(12))
@pytest.mark.parametrize("k", [0, 1, 3, 5])
async def test_an_end_token_anywhere_in_a_block_ends_the_answer_there(offset: int, k: int) -> None:
    tokens = continuation(PROMPT, 20)
    first = tokens.index(tokens[offset])
    made = generation(FakeDraft(), FakeTarget(), k, end_ids=[tokens[offset]])
    assert await text_of(made) == (tokens[: first + 1], letters(tokens[:first]), FinishReason.STOP)
    assert made.log.tokens == [*PROMPT, *tokens[: first + 1]]


@pytest.mark.parametrize("most", range(1, 9))
@pytest.mark.parametrize("behave", [right, half_right, overlong])
async def test_the_length_is_never_exceeded(behave: Behaviour, most: int) -> None:
    made = generation(FakeDraft([behave]), FakeTarget(), 5, most)
    rounds = await finish(made)
    assert sum(len(done.emitted) for done in rounds) == len(made.answer.tokens) == most


@pytest.mark.parametrize("most", range(1, 9))
async def test_no_more_is_asked_of_the_draft_than_can_still_be_emitted(most: int) -> None:
    """The last token of a round is the target's own."""
    draft = FakeDraft()
    made = generation(draft, FakeTarget(), 5, most)
    left = most
    for done in await finish(made):
        assert len(done.block) <= max(0, left - 1)
        left -= len(done.emitted)
    assert all(1 <= count <= 5 for count in draft.counts)


async def test_a_right_draft_makes_k_plus_one_tokens_per_round() -> None:
    rounds = await finish(generation(FakeDraft([right]), FakeTarget(), 4, 20))
    assert [len(done.emitted) for done in rounds] == [5, 5, 5, 5]


@given(
    script=st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=5), k=st.integers(0, 6), most=st.integers(1, 25)
)
@settings(max_examples=100)
async def test_totals_follow_the_definitions(script: list[Behaviour], k: int, most: int) -> None:
    """proposed = sent to verify, accepted = equal to the target's choices, emitted = committed (design 8)."""
    target = FakeTarget()
    made = generation(FakeDraft(script), target, k, most)
    rounds = await finish(made)
    totals = made.totals
    assert totals.rounds == len(rounds) == len(target.blocks)
    assert totals.proposed == sum(len(block) for block in target.blocks)
    assert totals.accepted == sum(done.num_accepted for done in rounds)
    assert totals.emitted == len(made.answer.tokens)
    assert all(len(done.emitted) == done.num_accepted + 1 for done in rounds[:-1])
    assert [done.number for done in rounds] == list(range(len(rounds)))
    assert [done.block for done in rounds] == target.blocks


@pytest.mark.parametrize("behave", [failing, forgetful])
async def test_each_round_that_the_draft_failed_counts_as_a_fault(behave: Behaviour) -> None:
    made = generation(FakeDraft([behave]), FakeTarget(), 4, 6)
    rounds = await finish(made)
    assert made.totals.draft_faults == 5  # the sixth round has room for the target's token only
    assert all((done.block, done.drafter) == ((), Drafter.NONE) for done in rounds)


async def test_an_absent_draft_is_not_asked_and_counts_as_a_fault() -> None:
    draft = FakeDraft(available=False)
    made = generation(draft, FakeTarget(), 4, 6)
    await finish(made)
    assert (draft.claims, made.totals.draft_faults) == ([], 5)


async def test_without_speculation_the_draft_is_neither_asked_nor_at_fault() -> None:
    draft = FakeDraft(available=False)
    made = generation(draft, FakeTarget(), 0, 6)
    await finish(made)
    assert (draft.claims, made.totals.draft_faults) == ([], 0)


async def test_an_empty_block_is_no_fault() -> None:
    made = generation(FakeDraft([empty]), FakeTarget(), 4, 6)
    await finish(made)
    assert (made.totals.draft_faults, made.totals.proposed) == (0, 0)


@pytest.mark.parametrize("behave", [right, half_right, wrong])
async def test_true_beliefs_send_each_token_once_after_the_first_round(behave: Behaviour) -> None:
    """Both sides truncate by the claim alone: in the steady state there is no miss and no resend."""
    draft, target = FakeDraft([behave]), FakeTarget()
    rounds = await finish(generation(draft, target, 3, 20))
    assert len(target.claims) == len(rounds)
    assert all(len(claim.tokens) == 1 for claim in target.claims[1:])
    assert all(len(claim.tokens) <= 2 for claim in draft.claims[1:])
    assert len(draft.claims) <= len(rounds)


async def test_a_warm_cache_is_used_from_the_first_round() -> None:
    target = FakeTarget()
    target.cache.log.extend(PROMPT[:4])
    await finish(generation(FakeDraft(), target, 0, 1, views=(0, 4)))
    assert [claim.prefix_len for claim in target.claims] == [4]


async def test_a_fully_cached_prompt_still_sends_its_last_token() -> None:
    """The target needs a row to give logits for."""
    target = FakeTarget()
    target.cache.log.extend(PROMPT)
    await finish(generation(FakeDraft(), target, 0, 1, views=(0, 5)))
    assert [(claim.prefix_len, claim.tokens) for claim in target.claims] == [(4, (5,))]


async def test_a_miss_is_answered_by_resending_from_what_is_cached() -> None:
    target = FakeTarget(evict=lambda call: 3 if call == 1 else None)
    made = generation(FakeDraft(), target, 0, 3)
    await finish(made)
    assert [claim.prefix_len for claim in target.claims] == [0, 5, 3, 6]


async def test_a_cache_that_shrinks_under_every_offer_gets_everything_the_third_time() -> None:
    shrinking = {1: 3, 2: 2, 3: 1}
    target = FakeTarget(evict=shrinking.get)
    made = generation(FakeDraft(), target, 0, 2)
    assert await text_of(made) == await alone(2)
    assert [claim.prefix_len for claim in target.claims] == [0, 5, 3, 0]


class Stubborn(FakeTarget):
    """Misses whatever is claimed, and offers a fixed length."""

    offer = 0

    async def verify(self, *args: object) -> CacheMiss:
        return CacheMiss(self.offer)


@pytest.mark.parametrize("offer", [0, 4, 99])
async def test_a_target_that_misses_for_ever_ends_the_answer_with_a_protocol_violation(offer: int) -> None:
    target = Stubborn()
    target.offer = offer
    with pytest.raises(ProtocolViolation):
        await finish(generation(FakeDraft(), target, views=(0, 4)))


async def test_plain_decoding_asks_once_for_a_run_of_rounds() -> None:
    """Of 16 rounds at most, and never beyond the length of the answer."""
    target = FakeTarget(max_run=64)
    made = generation(FakeDraft(), target, 0, 40)
    assert await text_of(made) == await alone(40)
    assert (len(target.claims), made.totals.rounds, target.coming) == (3, 40, 0)


async def test_no_block_is_asked_for_while_a_run_goes_on() -> None:
    """A draft that comes back meanwhile waits for its end."""
    draft, target = FakeDraft(), FakeTarget(coming=2)
    target.cache.take(Claim(0, 0, PROMPT[:-1]))
    made = generation(draft, target, 3, 10, views=(0, len(PROMPT) - 1))
    assert (await text_of(made))[0] == continuation(PROMPT, 10)
    assert [len(block) for block in target.blocks[:3]] == [0, 0, 3]


async def test_a_run_gives_way_to_a_block_and_its_numbers_are_not_used_again() -> None:
    """Two rounds of a run, a block of two, and so on; the target has computed a token of the run that nobody takes."""
    policy = Scripted([Plan(run=15), Plan(Drafter.MODEL, 2, breaks_off=True)], breaks=(True, False))
    target = FakeTarget(max_run=64)
    made = generation(FakeDraft([right]), target, most=14, policy=policy)
    rounds = await finish(made)
    assert made.answer.tokens == continuation(PROMPT, 14)
    assert [len(done.block) for done in rounds] == [0, 0, 2, 0, 0, 2, 0, 0, 1]
    assert target.broken_off >= 2
    assert [done.number for done in rounds] == target.numbers
    assert target.numbers[:4] == [0, 1, 14, 15], "of 13 rounds beyond the first, 12 are given up"
    assert made.totals.rounds == len(rounds)
    assert [seen.follows for seen in policy.seen[:6]] == [False, True, False, False, True, False]


LOOKING = Plan(Drafter.MODEL, 3, True, (1, 1, 1, 1))


async def test_a_block_that_was_prepared_is_verified_without_asking_the_draft() -> None:
    """The first one is asked for; then each outcome was prepared for."""
    draft, policy = FakeDraft([right]), Scripted([LOOKING])
    made = generation(draft, FakeTarget(), most=17, policy=policy)
    rounds = await finish(made)
    assert made.answer.tokens == continuation(PROMPT, 17)
    assert [done.prepared for done in rounds] == [False, True, True, True, False]  # the last has room for no block
    assert [situation.prepared for situation in policy.asked] == [0, 3, 3, 3, 3]
    assert (len(draft.counts), made.totals.hits, made.totals.look_aheads) == (1, 4, 4)


async def test_what_was_not_prepared_is_asked_for() -> None:
    looking = replace(LOOKING, fanout=(0, 0, 0, 1))
    made = generation(FakeDraft([half_right]), FakeTarget(), most=12, policy=Scripted([looking]))
    rounds = await finish(made)
    assert made.answer.tokens == continuation(PROMPT, 12)
    assert made.totals.hits == 0
    assert not any(done.prepared for done in rounds)


async def test_what_was_prepared_and_comes_late_is_taken_when_it_comes() -> None:
    """The verdict does not wait; the next block does, and is no hit."""
    draft, policy = FakeDraft([right], late=True), Scripted([LOOKING])
    made = generation(draft, FakeTarget(), most=12, policy=policy)
    rounds = await finish(made)
    assert made.answer.tokens == continuation(PROMPT, 12)
    assert made.totals.hits == 0
    assert draft.came_late == len(rounds) - 1
    became = [seen.preparation for seen in policy.seen]
    assert [each is not None and each.right and each.seconds is not None for each in became] == [
        False, *[True] * (len(rounds) - 1)
    ]  # fmt: skip


async def test_the_controller_hears_when_the_draft_must_not_look_ahead() -> None:
    policy = Scripted([Plan(Drafter.MODEL, 3)])
    made = generation(FakeDraft([right]), FakeTarget(), policy=policy)
    made.limits = replace(made.limits, look_ahead=False)
    await finish(made)
    assert [situation.look_ahead_available for situation in policy.asked] == [False] * len(policy.asked)


class Hanging(FakeDraft):
    """Never lets a request to look ahead go."""

    async def look_ahead(self, *args: object) -> None:
        await asyncio.Event().wait()


async def test_a_draft_that_hangs_on_a_look_ahead_holds_up_no_verdict() -> None:
    """The verdict that it was sent beside is committed, and rounds that need no draft go on."""
    made = generation(Hanging([right]), FakeTarget(), most=12, policy=Scripted([LOOKING, Plan(run=0), Plan(run=0)]))
    rounds = made.rounds()
    for _ in range(3):
        done = await asyncio.wait_for(anext(rounds), 5)
    assert done.hit is None
    assert made.totals.look_aheads == 1
    await rounds.aclose()


async def test_copies_from_the_text_need_no_draft() -> None:
    """A model whose text loops is copied from as soon as the loop is there."""
    draft, policy = FakeDraft(available=False), Scripted([Plan(Drafter.NGRAM, 4)])
    made = generation(draft, FakeTarget(), most=80, policy=policy)
    await finish(made)
    assert made.answer.tokens == continuation(PROMPT, 80)
    assert made.totals.copied == made.totals.proposed
    assert draft.claims == []


async def test_a_target_error_ends_the_answer_with_it() -> None:
    made = generation(FakeDraft(), FakeTarget(error=Unavailable("gone")))
    with pytest.raises(Unavailable, match="gone"):
        await finish(made)
    assert made.log.tokens == list(PROMPT)


async def test_log_probabilities_are_cut_with_the_emitted_tokens() -> None:
    tokens = continuation(PROMPT, 20)
    made = generation(FakeDraft([right]), FakeTarget(logprobs=True), 4, 20, end_ids=[tokens[2]])
    rounds = await finish(made)
    assert all(len(done.logprobs) == len(done.emitted) for done in rounds)


async def test_beliefs_never_exceed_the_tokens_that_exist() -> None:
    made = generation(FakeDraft([lying]), FakeTarget(), 4, 20)
    async for _ in made.rounds():
        assert made.drafting.view.length <= len(made.log)
        assert made.target_view.length <= len(made.log)


async def test_a_rejected_draft_token_is_not_believed_to_be_cached() -> None:
    made = generation(FakeDraft([wrong]), FakeTarget(), 4, 20)
    rounds = made.rounds()
    await anext(rounds)
    assert made.drafting.view.length == len(PROMPT)
    await rounds.aclose()


async def test_a_bug_in_the_draft_client_is_not_hidden() -> None:
    """Only OutriderErrors are draft trouble; a TypeError is a defect and must show."""

    def buggy(tokens: list[int], count: int) -> Sequence[int]:
        raise TypeError("a bug")

    with pytest.raises(TypeError):
        await finish(generation(FakeDraft([buggy]), FakeTarget()))
    assert not issubclass(TypeError, OutriderError)


async def test_cached_prompt_tokens_are_what_the_first_verdict_did_not_compute() -> None:
    """The session's own cache, what it really had after a miss, and what others share with it."""
    target = FakeTarget()
    made = generation(FakeDraft(), target, 0)
    await finish(made)
    assert made.totals.cached_prompt_tokens == 0
    again = generation(FakeDraft(), target, 0, views=(0, 3))
    await finish(again)
    assert again.totals.cached_prompt_tokens == 3
    lost = generation(FakeDraft(), FakeTarget(shared=2), 0, views=(0, 3))
    await finish(lost)
    assert lost.totals.cached_prompt_tokens == 2
