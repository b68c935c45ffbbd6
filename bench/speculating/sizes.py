"""Bytes per round: what orchestrator, target and draft tell each other, for each way to speculate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.speculating.payload import Relay, Stream, relay
from bench.speculating.plan import AHEAD, OFF
from bench.systems.outrider import AUTO, fixed
from bench.systems.outrider import OFF as SPECULATION_OFF
from bench.systems.site import Seat, site
from bench.traffic import CLASSES
from bench.windows import Window
from outrider.tokenizer import Tokenizer

_MODES = {OFF: SPECULATION_OFF, "k = 2": fixed(2), "k = 4": fixed(4), "k = 8": fixed(8), AHEAD: AUTO}
_ANSWERS = 3
_SERIAL = 900
"""Windows far from those of the run: prompts of their own."""


@dataclass(frozen=True, slots=True)
class LinkPayload:
    """Payload of one way to speculate on one link: bytes per round each way, and the largest message. The first message
    of a stream, which carries the prompt, is left out. ``rounds`` are the answers' rounds."""

    speculation: str
    link: str
    rounds: int
    requests: float
    largest_request: int
    responses: float
    largest_response: int


def summed(speculation: str, link: str, streams: Sequence[Stream], rounds: int) -> LinkPayload:
    """Of all rounds but the first of each stream."""
    sent = [size for stream in streams for size in stream.requests[1:]]
    came = [size for stream in streams for size in stream.responses[1:]]
    each = max(1, rounds)
    return LinkPayload(
        speculation, link, rounds, sum(sent) / each, max(sent, default=0), sum(came) / each, max(came, default=0)
    )


def _rounds_of(counting: Relay) -> list[Stream]:
    """Streams of rounds since the last look."""
    found = [stream for stream in counting.streams if stream.method.endswith(("/Propose", "/Verify"))]
    counting.streams.clear()
    return found


async def measure_sizes(target: str, draft: str, tokenizer_folder: str, logs: Path) -> list[LinkPayload]:
    """A few answers through relays, for every way to speculate."""
    tokenizer, found = Tokenizer.load(tokenizer_folder), []
    async with relay(target) as to_target, relay(draft) as to_draft:
        seat = Seat("counted", to_draft.address)
        async with site(to_target.address, tokenizer_folder, [seat], logs, "") as counted:
            for number, (name, speculation) in enumerate(_MODES.items()):
                system = counted.system(name, seat.name, speculation)
                requests = [
                    Window(900 + number, 1, turn, 0, CLASSES[1]).requests(tokenizer) for turn in range(_ANSWERS)
                ]
                timings = [await system.answer(request) for (request,) in requests]
                rounds = sum(len(timing.steps) - 1 for timing in timings)
                for link, counting in (("target", to_target), ("draft", to_draft)):
                    found.append(summed(name, link, _rounds_of(counting), rounds))
    return found
