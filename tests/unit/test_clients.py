"""What a peer answers is checked before it reaches the acceptance loop. A channel without a socket plays the peer."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from opentelemetry.trace import INVALID_SPAN

from orchestrator.clients import draft_facts, release_target, target_facts
from orchestrator.draft_stream import DraftStream
from orchestrator.exchange import Way
from orchestrator.meters import Meters
from orchestrator.peers import Proposal, Verdict
from orchestrator.round_stream import StreamOptions
from orchestrator.target_stream import TargetStream
from outrider import wire
from outrider.errors import InvalidArgument, OutriderError, ProtocolViolation, ResourceExhausted, Unavailable
from outrider.sampling import SamplingParams
from outrider.status import to_status
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2, draft_pb2, target_pb2
from tests.unit.test_status import as_received
from tests.waiting import eventually

VOCAB = 100
FACTS = wire.ReplicaFacts(77, "m", "f", VOCAB, (0,), 512, True, 4096, 4)
CLAIM = Claim(3, 9, (5, 6))
PARAMS = SamplingParams(temperature=0.5, seed=11)
BLOCK = (1, 2, 3)
Answer = Callable[[Any], Any]


class FakeCall:
    """One bidirectional call: ``answer`` turns a request into a response, raises, or never returns."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.sent: list[Any] = []
        self.cancelled = False

    async def write(self, request: Any) -> None:
        self.sent.append(request)

    async def read(self) -> Any:
        answer = self._answer(self.sent[-1])
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        self.cancelled = True


class FakeChannel:
    """Gives every stream the same call, and every unary call the same answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.call = FakeCall(answer)
        self.timeout: float | None = None

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        def start(timeout: float | None) -> FakeCall:
            self.timeout = timeout
            return self.call

        return start

    def unary_unary(self, *_: Any, **__: Any) -> Any:
        async def ask(request: Any, **_: Any) -> Any:
            answer = self.answer(request)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


def options(timeout: float = 5.0, logprobs: bool = False) -> StreamOptions:
    return StreamOptions("s", PARAMS, 30.0, timeout, logprobs)


def way() -> Way:
    return Way("host:1", "Verify", Meters().tiers["target"])


def proposal(**fields: Any) -> Answer:
    return lambda request: draft_pb2.ProposeResponse(**{"round": request.round, "incarnation": 77, **fields})


def verdict(**fields: Any) -> Answer:
    return lambda request: target_pb2.VerifyResponse(**{"round": request.round, "incarnation": 77, **fields})


async def propose(answer: Answer, count: int = 3) -> Any:
    channel: Any = FakeChannel(answer)
    return await DraftStream(channel, FACTS, options(), way()).propose(4, CLAIM, count, INVALID_SPAN)


async def verify(answer: Answer, logprobs: bool = False) -> Any:
    channel: Any = FakeChannel(answer)
    return await TargetStream(channel, FACTS, options(logprobs=logprobs), way()).verify(
        4, CLAIM, BLOCK, 0, INVALID_SPAN
    )


def block(*tokens: int, cached_len: int = 5) -> draft_pb2.Block:
    return draft_pb2.Block(tokens=tokens, cached_len=cached_len)


def judged(accepted: int, token: int = 7, cached_len: int = 5, logprobs: int = 0) -> target_pb2.Verdict:
    return target_pb2.Verdict(
        num_accepted=accepted, next_token=token, cached_len=cached_len, token_logprobs=[-1.0] * logprobs
    )


async def test_a_block_arrives() -> None:
    assert await propose(proposal(block=block(1, 2, 3, cached_len=7))) == Proposal((1, 2, 3), 7)


async def test_a_verdict_arrives() -> None:
    assert await verify(verdict(verdict=judged(2, cached_len=7))) == Verdict(2, 7, (), 7)


async def test_log_probabilities_arrive() -> None:
    answer = await verify(verdict(verdict=judged(2, logprobs=3)), logprobs=True)
    assert answer.logprobs == (-1.0, -1.0, -1.0)


async def test_misses_arrive() -> None:
    miss = common_pb2.CacheMiss(cached_len=2)
    assert await propose(proposal(cache_miss=miss)) == CacheMiss(2)
    assert await verify(verdict(cache_miss=miss)) == CacheMiss(2)


JUNK_BLOCKS = {
    "more tokens than asked for": proposal(block=block(1, 2, 3, 4)),
    "a token that does not exist": proposal(block=block(1, VOCAB)),
    "more cached than there is": proposal(block=block(1, 2, cached_len=8)),
    "no outcome": proposal(),
    "a miss that offers all that was claimed": proposal(cache_miss=common_pb2.CacheMiss(cached_len=3)),
    "another round": proposal(round=5, block=block(1)),
}

JUNK_VERDICTS = {
    "more accepted than sent": verdict(verdict=judged(4)),
    "a token that does not exist": verdict(verdict=judged(1, token=VOCAB)),
    "more cached than there is": verdict(verdict=judged(1, cached_len=9)),
    "log-probabilities that nobody asked for": verdict(verdict=judged(1, logprobs=2)),
    "more shared than sent": verdict(verdict=judged(1), timings=common_pb2.Timings(shared_tokens=99)),
    "no outcome": verdict(),
    "a miss that offers all that was claimed": verdict(cache_miss=common_pb2.CacheMiss(cached_len=3)),
    "another round": verdict(round=5, verdict=judged(1)),
}


@pytest.mark.parametrize("kind", JUNK_BLOCKS)
async def test_a_draft_that_answers_junk_violates_the_protocol(kind: str) -> None:
    """Never an InvalidArgument: that would blame the request, and keep the bad draft in use."""
    with pytest.raises(ProtocolViolation):
        await propose(JUNK_BLOCKS[kind])


@pytest.mark.parametrize("kind", JUNK_VERDICTS)
async def test_a_target_that_answers_junk_violates_the_protocol(kind: str) -> None:
    with pytest.raises(ProtocolViolation):
        await verify(JUNK_VERDICTS[kind])


@pytest.mark.parametrize("count", [1, 2, 4])
async def test_missing_log_probabilities_violate_the_protocol(count: int) -> None:
    with pytest.raises(ProtocolViolation):
        await verify(verdict(verdict=judged(2, logprobs=count)), logprobs=True)


async def test_another_incarnation_means_that_the_caches_are_gone() -> None:
    with pytest.raises(Unavailable, match="restarted"):
        await propose(proposal(incarnation=78, block=block(1)))
    with pytest.raises(Unavailable, match="restarted"):
        await verify(verdict(incarnation=78, verdict=judged(1)))


async def test_silence_is_unavailable_and_ends_the_call() -> None:
    channel: Any = FakeChannel(lambda request: None)
    stream = DraftStream(channel, FACTS, options(timeout=0.01), way())
    with pytest.raises(Unavailable, match="no answer within"):
        await stream.propose(0, CLAIM, 3, INVALID_SPAN)
    assert channel.call.cancelled


async def test_the_end_of_the_stream_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="ended the stream"):
        await propose(lambda request: grpc.aio.EOF)


@pytest.mark.parametrize("error", [ResourceExhausted("full"), InvalidArgument("tokens", "too long"), Unavailable("x")])
async def test_what_the_peer_raised_is_raised_here(error: OutriderError) -> None:
    with pytest.raises(type(error)) as caught:
        await propose(lambda request: as_received(to_status(error)))
    assert caught.value.message == error.message


async def test_session_and_sampling_are_sent_once_and_the_rest_each_time() -> None:
    channel: Any = FakeChannel(verdict(verdict=judged(1)))
    stream = TargetStream(channel, FACTS, options(), way())
    await stream.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    await stream.verify(1, CLAIM, BLOCK, 0, INVALID_SPAN)
    first, second = channel.call.sent
    assert (first.session_id, wire.sampling_from_pb(first.sampling)) == ("s", PARAMS)
    assert (second.session_id, second.HasField("sampling")) == ("", False)
    for request in (first, second):
        assert (request.prefix_len, request.prefix_digest, tuple(request.tokens)) == (3, 9, (5, 6))
        assert tuple(request.draft_tokens) == BLOCK


async def test_no_more_is_asked_than_the_draft_can_give() -> None:
    channel: Any = FakeChannel(proposal(block=block(1)))
    await DraftStream(channel, FACTS, options(), way()).propose(0, CLAIM, 9, INVALID_SPAN)
    assert channel.call.sent[0].max_draft_tokens == FACTS.max_draft_tokens


async def test_the_requests_deadline_travels_with_the_stream() -> None:
    channel: Any = FakeChannel(proposal(block=block(1)))
    DraftStream(channel, FACTS, options(), way())
    assert channel.timeout == 30.0


async def test_closing_cancels_the_call() -> None:
    channel: Any = FakeChannel(proposal(block=block(1)))
    DraftStream(channel, FACTS, options(), way()).close()
    assert channel.call.cancelled


async def test_the_handshake_gives_facts() -> None:
    info = wire.facts_to_pb(FACTS)
    draft: Any = FakeChannel(lambda request: draft_pb2.DraftServiceGetReplicaInfoResponse(info=info))
    target: Any = FakeChannel(lambda request: target_pb2.TargetServiceGetReplicaInfoResponse(info=info))
    assert await draft_facts(draft) == await target_facts(target) == FACTS


async def test_errors_of_unary_calls_are_raised_as_ours() -> None:
    channel: Any = FakeChannel(lambda request: as_received(to_status(Unavailable("loading"))))
    with pytest.raises(Unavailable, match="loading"):
        await draft_facts(channel)
    with pytest.raises(Unavailable, match="loading"):
        await release_target(channel, "s", "")


async def test_a_run_is_asked_for_once_and_read_as_it_comes() -> None:
    """Of as many rounds as the target takes; then the next round is asked for again."""
    numbers = iter(range(4, 9))
    channel: Any = FakeChannel(lambda request: verdict(round=next(numbers), verdict=judged(0))(request))
    stream = TargetStream(channel, dataclasses.replace(FACTS, max_run=2), options(), way())
    coming = []
    for number in range(4, 8):
        assert await stream.verify(number, CLAIM, (), 9, INVALID_SPAN) == Verdict(0, 7, (), 5)
        coming.append(stream.coming)
    assert ([request.round for request in channel.call.sent], coming) == ([4, 7], [2, 1, 0, 2])
    assert [request.run for request in channel.call.sent] == [2, 2]


@pytest.mark.parametrize("late", [(), (6,), (6, 7)])
async def test_a_block_ends_a_run_whose_late_verdicts_are_passed_over(late: tuple[int, ...]) -> None:
    """Rounds 5 to 7 were to come; 5 is read, and what comes of the others before 8 is nobody's."""
    numbers = iter((4, 5, *late, 8, 9))
    channel: Any = FakeChannel(lambda request: verdict(round=next(numbers), verdict=judged(0))(request))
    stream = TargetStream(channel, dataclasses.replace(FACTS, max_run=3), options(), way())
    for number in (4, 5):
        await stream.verify(number, CLAIM, (), 9, INVALID_SPAN)
    assert stream.coming == 2
    assert await stream.verify(8, CLAIM, BLOCK, 0, INVALID_SPAN) == Verdict(0, 7, (), 5)
    assert stream.coming == 0
    await stream.verify(9, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert [request.round for request in channel.call.sent] == [4, 8, 9]


async def test_a_miss_brings_no_run() -> None:
    channel: Any = FakeChannel(verdict(cache_miss=common_pb2.CacheMiss(cached_len=2)))
    stream = TargetStream(channel, dataclasses.replace(FACTS, max_run=2), options(), way())
    assert await stream.verify(4, CLAIM, (), 9, INVALID_SPAN) == CacheMiss(2)
    assert stream.coming == 0


def continuations(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
    """A look-ahead is answered for (1, 9) and (0, 8)."""
    found = [
        draft_pb2.Continuation(num_accepted=accepted, next_token=token, tokens=[token + 1, token + 2])
        for accepted, token in ((1, 9), (0, 8))
    ]
    return draft_pb2.ProposeResponse(
        round=request.round, incarnation=77, continuations=draft_pb2.Continuations(continuations=found)
    )


class LateCall(FakeCall):
    """Answers a look-ahead when the next question has been sent, and then the question."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._asked = asyncio.Event()
        self._ahead: list[Any] = []

    async def write(self, request: Any) -> None:
        await super().write(request)
        if request.HasField("look_ahead"):
            self._ahead.append(request)
        else:
            self._asked.set()

    async def read(self) -> Any:
        await self._asked.wait()
        return continuations(self._ahead.pop()) if self._ahead else self._answer(self.sent[-1])


@pytest.mark.parametrize(
    ("outcome", "tokens"), [((1, 9), (10, 11)), ((0, 8), (9, 10)), ((0, 9), (1, 2)), (None, (1, 2))]
)
async def test_what_was_prepared_for_the_outcome_will_do_when_it_comes_first(
    outcome: tuple[int, int] | None, tokens: tuple[int, ...]
) -> None:
    """Only for that outcome, and only where somebody still wants it."""
    channel: Any = FakeChannel(proposal(block=block(1, 2)))
    channel.call = LateCall(proposal(block=block(1, 2)))
    stream = DraftStream(channel, FACTS, options(), way())
    await stream.look_ahead(4, CLAIM, (7,), (1, 1), 2, INVALID_SPAN)
    assert stream.prepared() is None
    found = await stream.propose(5, CLAIM, 2, INVALID_SPAN, late=outcome)
    assert isinstance(found, Proposal)
    assert (found.tokens, found.prepared) == (tokens, tokens != (1, 2))
    assert (stream.preparation_s() is not None) == (outcome is not None)
    assert stream.preparation_s() is None, "told once"


async def test_the_time_of_a_look_ahead_that_nobody_waited_for_is_not_told_of_the_next_one() -> None:
    channel: Any = FakeChannel(proposal(block=block(1, 2)))
    channel.call = call = LateCall(proposal(block=block(1, 2)))
    stream = DraftStream(channel, FACTS, options(), way())
    await stream.look_ahead(4, CLAIM, (7,), (1, 1), 2, INVALID_SPAN)
    call._asked.set()
    await eventually(lambda: stream._preparation_s is not None, "its answer has come")
    call._asked.clear()
    await stream.look_ahead(5, CLAIM, (7,), (1, 1), 2, INVALID_SPAN)
    assert stream.preparation_s() is None
