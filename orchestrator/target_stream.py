"""gRPC client of a target: one bidirectional stream per session, one message per round or per run of plain rounds.

It turns messages into the session's values and checks every answer: junk, another round or another incarnation raises
an error here and never reaches the acceptance loop. It does not know pools, nor sessions beyond an id.
"""

import grpc
from opentelemetry.trace import Span

from orchestrator.exchange import Exchange, Way
from orchestrator.peer_answers import check_ids, check_incarnation, check_length, read_miss
from orchestrator.peers import Verdict
from orchestrator.round_stream import RoundStream, StreamOptions
from outrider import semconv
from outrider.errors import ProtocolViolation
from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import target_pb2, target_pb2_grpc
from outrider.wire import ReplicaFacts


class TargetStream:
    """One session's stream to one target replica. ``coming`` counts the answers of a run that are still to come."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions, way: Way) -> None:
        self._facts = facts
        self._way = way
        self._logprobs = options.logprobs
        self.coming = 0
        self._follows = 0  # the round of the run that comes next
        self._first: Exchange | None = None  # whose message asked for the run
        self._stream = RoundStream(target_pb2_grpc.TargetServiceStub(channel).Verify, options)

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, parent: Span
    ) -> Verdict | CacheMiss:
        """Ask which tokens of the block the target chooses too, unless a run brings the answer by itself. Another
        round than the next of the run ends it: its verdicts that are still on their way are passed over."""
        exchange = Exchange(self._way, semconv.SPAN_VERIFY_CLIENT, number, claim, parent)
        if self.coming and number != self._follows:
            self._stream.pass_over(range(self._follows, self._follows + self.coming))
            self.coming = 0
        with exchange:
            response = await (self._follow(exchange) if self.coming else self._ask(exchange, claim, block, run))
            return self._read(response, claim, block, exchange.timings)

    async def _ask(
        self, exchange: Exchange, claim: Claim, block: tuple[int, ...], run: int
    ) -> target_pb2.VerifyResponse:
        request = self._request(exchange, claim, block)
        request.run = min(run, self._facts.max_run)
        self._first = exchange
        exchange.in_run_of(exchange)
        response: target_pb2.VerifyResponse = await self._stream.ask(request)
        self.coming, self._follows = request.run, request.round + 1
        exchange.sent(request)
        exchange.answered(response)
        return response

    async def _follow(self, exchange: Exchange) -> target_pb2.VerifyResponse:
        """A round of the run that the last message asked for."""
        assert self._first is not None
        self.coming, self._follows = self.coming - 1, self._follows + 1
        exchange.in_run_of(self._first)
        response: target_pb2.VerifyResponse = await self._stream.next_answer(exchange.number)
        exchange.answered(response, in_run=True)
        return response

    def _request(self, exchange: Exchange, claim: Claim, block: tuple[int, ...]) -> target_pb2.VerifyRequest:
        return target_pb2.VerifyRequest(
            round=exchange.number,
            prefix_len=claim.prefix_len,
            prefix_digest=claim.prefix_digest,
            tokens=claim.tokens,
            draft_tokens=block,
            logprobs=self._logprobs,
            traceparent=exchange.traceparent,
        )

    def _read(
        self, response: target_pb2.VerifyResponse, claim: Claim, block: tuple[int, ...], timings: RoundTimings
    ) -> Verdict | CacheMiss:
        check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            self.coming = 0
            return read_miss(response, claim)
        if response.WhichOneof("outcome") != "verdict":
            raise ProtocolViolation("a verdict without an outcome")
        verdict = response.verdict
        accepted = check_length("num_accepted", verdict.num_accepted, 0, len(block))
        wanted = accepted + 1 if self._logprobs else 0
        check_length("number of log-probabilities", len(verdict.token_logprobs), wanted, wanted)
        return Verdict(
            num_accepted=accepted,
            next_token=check_ids("next_token", [verdict.next_token], self._facts.vocab_size)[0],
            logprobs=tuple(verdict.token_logprobs),
            cached_len=check_length("cached_len", verdict.cached_len, 0, claim.end + len(block)),
            shared=check_length("shared_tokens", timings.shared_tokens, 0, len(claim.tokens) - 1),
            timings=timings,
            rounds=response.load.pending_rounds,
        )

    def abandon(self, reason: str) -> None:
        """The replica is lost: whoever waits for an answer gets Unavailable."""
        self._stream.abandon(reason)

    def close(self) -> None:
        """End the stream."""
        self._stream.close()
