"""One bidirectional call as question and answer: the transport under the clients of draft and target.

It knows what every round's messages have in common (round number, tokens, what the first one fixes), not what
is in them; any trouble on the wire becomes an error of ours. A peer may also be asked for what is only fetched if
it has come by the time it is wanted.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from outrider.errors import ProtocolViolation, Unavailable
from outrider.sampling import SamplingParams
from outrider.status import from_replica
from outrider.wire import sampling_to_pb

_CATCH_UP_S_PER_TOKEN = 0.002
"""Added to the longest wait for each token that the replica has to catch up with: a long prompt is no hang."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What is fixed for a stream: session, sampling, deadline of the request in seconds from now (None for
    none), longest wait for one answer, whether log-probabilities are wanted, and the tenant."""

    session_id: str
    params: SamplingParams
    deadline_s: float | None
    round_timeout_s: float
    logprobs: bool = False
    tenant: str = ""


class RoundStream:
    """Request-response over one bidirectional call. Any trouble ends the call; the owner opens another."""

    def __init__(self, method: Any, options: StreamOptions) -> None:
        self._call = method(timeout=options.deadline_s)
        self._options = options
        self._opened = False
        self._reading: asyncio.Task[Any] | None = None
        self._abandoned = ""
        self._optional: list[int] = []  # rounds whose answer may still come, or not
        self._notice: Callable[[Any], None] | None = None  # who hears of the answer to the last of them

    async def ask(self, request: Any, instead: Callable[[Any], bool] | None = None) -> Any:
        """Send one message and wait for its answer. Raises Unavailable on silence, else what the peer raised.

        Where an optional answer comes first that will do ``instead``, it is returned, and the other one passed over.
        """
        self._fix(request)
        patience = self._options.round_timeout_s + len(request.tokens) * _CATCH_UP_S_PER_TOKEN
        return await self._exchange(request, request.round, patience, instead)

    async def next_answer(self, number: int) -> Any:
        """Wait for the answer to a round that needs no message. Raises what ``ask`` raises."""
        return await self._exchange(None, number, self._options.round_timeout_s)

    def pass_over(self, numbers: Iterable[int]) -> None:
        """The answers to these rounds, which may still come, are not wanted any more."""
        self._optional.extend(numbers)

    async def send(self, request: Any, notice: Callable[[Any], None] | None = None) -> None:
        """Send one message whose answer is optional: ``arrived`` gives it, the next ``ask`` passes over it.

        ``notice`` hears of the answer when it comes.
        """
        self._fix(request)
        await self._exchange(request, None, self._options.round_timeout_s)
        self._optional.append(request.round)
        self._notice = notice
        self._read()

    def arrived(self) -> Any:
        """The answer to the last message sent, when it has come; else None. Raises what ``ask`` raises."""
        if not self._optional or not self._read().done():
            return None
        reading, self._reading = self._reading, None
        assert reading is not None
        try:
            response = self._checked(reading.result(), None)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise self._translated(error) from None
        if self._optional:  # it was the answer to an earlier one
            self._read()
            return None
        return response

    def _fix(self, request: Any) -> None:
        """The first message of the stream also carries what is fixed for its life."""
        if not self._opened:
            request.session_id = self._options.session_id
            request.tenant = self._options.tenant
            request.sampling.CopyFrom(sampling_to_pb(self._options.params))
            self._opened = True

    def _read(self) -> "asyncio.Task[Any]":
        """The read that is going on. It is a task of its own, since cancelling a read ends the call."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
            self._reading.add_done_callback(self._has_read)
        return self._reading

    def _has_read(self, reading: "asyncio.Task[Any]") -> None:
        """What a read that nobody waits for any more has raised is known then, and what has come is told."""
        if reading.cancelled() or reading.exception() is not None:
            return
        response, newest = reading.result(), len(self._optional) - 1
        number = getattr(response, "round", None)  # an end has none
        if self._notice is not None and number in self._optional and self._optional.index(number) == newest:
            self._notice(response)

    async def _exchange(
        self, request: Any, number: int | None, patience: float, instead: Callable[[Any], bool] | None = None
    ) -> Any:
        """Send, unless there is nothing to send, and wait for the answer to a round, unless it is None."""
        try:
            async with asyncio.timeout(patience):
                if request is not None:
                    await self._call.write(request)
                return await self._answer(number, instead) if number is not None else None
        except TimeoutError:
            self.close()
            raise Unavailable(f"no answer within {patience:g} s") from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise self._translated(error) from None
        except asyncio.CancelledError:  # of the call, not of whoever waits for it
            task = asyncio.current_task()
            if not self._abandoned or (task is not None and task.cancelling()):
                raise
            raise Unavailable(self._abandoned) from None

    async def _answer(self, number: int, instead: Callable[[Any], bool] | None) -> Any:
        """The next answer that is not one to an optional message, or that will do instead, if it is that to the last of
        them: a question and a look-ahead of one round have one number, and the question may have been passed over."""
        while True:
            if self._reading is None and not self._optional:
                return self._checked(await self._call.read(), number)
            response = await asyncio.shield(self._read())
            self._reading = None
            if self._checked(response, number).round == number:
                self._optional.clear()
                return response
            if instead is not None and not self._optional and instead(response):
                self._optional.append(number)
                return response

    @staticmethod
    def _translated(error: Exception) -> Exception:
        if isinstance(error, grpc.aio.AioRpcError):
            return from_replica(error)
        if isinstance(error, asyncio.InvalidStateError):
            return Unavailable("the stream has ended")
        return error

    def _checked(self, response: Any, number: int | None) -> Any:
        """The response, if it is one, to this round or to an optional message, the first one of its round; those before
        that get none any more."""
        if response is grpc.aio.EOF:
            raise Unavailable("the peer ended the stream")
        if response is None:  # what grpc.aio gives for bytes that are no such message
            self.close()
            raise ProtocolViolation("an answer that cannot be parsed")
        if response.round in self._optional:
            del self._optional[: self._optional.index(response.round) + 1]
        elif response.round != number:
            self.close()
            words = "" if number is None else f" in round {number}"
            raise ProtocolViolation(f"answer to round {response.round}{words}")
        return response

    def abandon(self, reason: str) -> None:
        """The peer is known to be lost: end the call, and whoever waits for an answer gets Unavailable."""
        self._abandoned = reason
        self.close()

    def close(self) -> None:
        """End the call; the peer drops what it was doing for it."""
        self._call.cancel()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
