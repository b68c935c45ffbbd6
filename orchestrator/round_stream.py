"""One bidirectional call as question and answer: the transport under the clients of draft and target.

It knows what every round's messages have in common (round number, tokens, what the first one fixes), not what
is in them; any trouble on the wire becomes an error of ours.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc

from outrider.errors import ProtocolViolation, Unavailable
from outrider.sampling import SamplingParams
from outrider.status import from_rpc_error
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

    async def ask(self, request: Any) -> Any:
        """Send one message and wait for its answer. Raises Unavailable on silence, else what the peer raised.

        The first message of the stream also carries what is fixed for its life.
        """
        if not self._opened:
            request.session_id = self._options.session_id
            request.tenant = self._options.tenant
            request.sampling.CopyFrom(sampling_to_pb(self._options.params))
            self._opened = True
        patience = self._options.round_timeout_s + len(request.tokens) * _CATCH_UP_S_PER_TOKEN
        return await self._exchange(request, request.round, patience)

    async def next_answer(self, number: int) -> Any:
        """Wait for the answer to a round that needs no message. Raises what ``ask`` raises."""
        return await self._exchange(None, number, self._options.round_timeout_s)

    async def _exchange(self, request: Any, number: int, patience: float) -> Any:
        try:
            async with asyncio.timeout(patience):
                if request is not None:
                    await self._call.write(request)
                response = await self._call.read()
        except TimeoutError:
            self.close()
            raise Unavailable(f"no answer within {patience:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        except asyncio.InvalidStateError:
            raise Unavailable("the stream has ended") from None
        if response is grpc.aio.EOF:
            raise Unavailable("the peer ended the stream")
        if response is None:  # what grpc.aio gives for bytes that are no such message
            self.close()
            raise ProtocolViolation("an answer that cannot be parsed")
        if response.round != number:
            self.close()
            raise ProtocolViolation(f"answer to round {response.round} in round {number}")
        return response

    def close(self) -> None:
        """End the call; the peer drops what it was doing for it."""
        self._call.cancel()
