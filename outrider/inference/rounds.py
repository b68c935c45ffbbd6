"""What the handlers of both model services do with a stream of rounds before the model is asked.

It checks a round's envelope and fixes the session, its tenant and the sampling parameters at the first message.
It does not know which message type it reads: both have these fields.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from outrider.errors import InvalidArgument
from outrider.inference.batcher import Batcher
from outrider.inference.inbox import Inbox
from outrider.inference.stream import Stream
from outrider.sampling import SamplingParams
from outrider.tokens import Claim
from outrider.wire import (
    check_session_id,
    check_tenant,
    claim_from,
    refuse_unknown_fields,
    sampling_from_pb,
    session_name,
)


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first message of a stream fixes."""

    session_id: str
    params: SamplingParams
    stream: Stream = field(default_factory=Stream, compare=False)

    @property
    def name(self) -> str:
        """Name of the session within this replica."""
        return session_name(self.stream.tenant, self.session_id)


def read_opening(request: Any, resumable: bool = True) -> Opening:
    """Session and sampling of the first message. Raises InvalidArgument.

    ``resumable``: whether a stream that begins in the middle of an answer must not be refused for lack of room.
    """
    if not request.HasField("sampling"):
        raise InvalidArgument("sampling", "must be set in the first message of a stream")
    if not request.sampling.HasField("seed"):
        raise InvalidArgument("sampling.seed", "must be set between the services")
    stream = Stream(check_tenant(request.tenant), resumed=resumable and request.round > 0)
    return Opening(check_session_id(request.session_id), sampling_from_pb(request.sampling), stream)


def read_release(release: Any) -> str:
    """Name of the session to release. Raises InvalidArgument."""
    return session_name(check_tenant(release.tenant), check_session_id(release.session_id))


def read_claim(request: Any, opening: Opening, vocab_size: int) -> Claim:
    """The claim of any message. Raises InvalidArgument, also when it contradicts the first message."""
    refuse_unknown_fields(request)
    if request.HasField("sampling") and sampling_from_pb(request.sampling) != opening.params:
        raise InvalidArgument("sampling", "is fixed by the first message of a stream")
    if request.session_id not in ("", opening.session_id):
        raise InvalidArgument("session_id", f"this stream belongs to {opening.session_id!r}")
    if request.tenant not in ("", opening.stream.tenant):
        raise InvalidArgument("tenant", "is fixed by the first message of a stream")
    return claim_from(request.prefix_len, request.prefix_digest, request.tokens, vocab_size)


def _never(request: Any) -> bool:
    """Every message is answered before the next one is looked at."""
    return False


async def in_order(
    requests: Any,
    batcher: Batcher,
    answers: Callable[[Opening, Any], AsyncGenerator[Any, None]],
    yields: Callable[[Any], bool] = _never,
    resumable: bool = True,
) -> AsyncIterator[Any]:
    """Answer each message of one stream, and let go of what the stream holds however it ends.

    A message that ``yields`` is answered until the next one comes, which ends it. ``resumable``: see ``read_opening``.
    """
    opening: Opening | None = None
    inbox = Inbox(requests)
    try:
        async for request in inbox:
            opening = opening or read_opening(request, resumable)
            async with contextlib.aclosing(answers(opening, request)) as responses:
                async for response in inbox.before_next(responses) if yields(request) else responses:
                    yield response
    finally:
        await inbox.close()
        if opening is not None:
            batcher.end(opening.stream)
