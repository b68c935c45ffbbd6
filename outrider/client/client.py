"""The client: channels to one or more orchestrators, and answers from whichever of them can give it."""

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from types import TracebackType

from outrider.client.addresses import Addresses
from outrider.client.ask import Ask
from outrider.client.asking import Asking, Orchestrators, Times
from outrider.client.events import Answer, Delta, Event, Finished, Started
from outrider.client.line import Line
from outrider.client.messages import ask_to_pb
from outrider.client.sessions import Sessions
from outrider.credentials import PLAIN, Dialer
from outrider.errors import InvalidArgument, OutriderError
from outrider.tls import TlsFiles, TlsPaths
from outrider.v1 import orchestrator_pb2 as pb

_INFO_S = 5.0


def _nothing(delta: Delta) -> None:
    """Nobody wants to know."""


class Client:
    """Answers from the orchestrators at ``addresses``. Open inside ``async with``; use it from any number of tasks.

    Every method raises an OutriderError of ``outrider.errors`` that says what the caller can do; what is worth another
    try has been tried again by then.
    """

    def __init__(
        self,
        *addresses: str,
        api_key: str = "",
        tenant: str = "",
        timeout_s: float | None = 600.0,
        stall_s: float | None = 30.0,
        patience_s: float | None = 30.0,
        tls: TlsPaths | None = None,
        tls_name: str = "",
    ) -> None:
        """``api_key``: sent as a bearer token. ``tenant``: of asks that name none.

        ``tls``: files with the certificates that sign the orchestrators' and, where these want one, with a certificate
        and key to show; they are read again when they change. None is in the clear. ``tls_name``: name that an
        orchestrator's certificate must have; empty for the host of its address.

        ``timeout_s``: of an answer with all its attempts; DeadlineExceeded after that. ``stall_s``: after so long
        without an event an orchestrator must answer something else, or its stream counts as broken. ``patience_s``:
        how long attempts in a row may fail before the last one's error is raised. None is for ever.

        Raises InvalidArgument, and ConfigError for files that cannot be used.
        """
        self._dialer = Dialer(TlsFiles(tls), tls_name) if tls else PLAIN
        self._addresses = Addresses(addresses)
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._tenant = tenant
        self._times = Times(timeout_s, stall_s, patience_s)
        self._sessions = Sessions()
        self._lines: dict[str, Line] = {}

    async def __aenter__(self) -> "Client":
        self._lines = {address: Line(address, self._metadata, self._dialer) for address in self._addresses}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            await line.close()

    @property
    def addresses(self) -> str:
        """All of them, for messages."""
        return str(self._addresses)

    @property
    def lines(self) -> Sequence[Line]:
        """The way to each orchestrator, for what has to be asked of every one: numbers, requests, traces."""
        return list(self._lines.values())

    async def stream(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Started, any number of Delta, Finished. Leaving it early cancels the answer; close it then
        (``contextlib.aclosing``), or its work goes on until it is collected."""
        seed = secrets.randbits(64) if ask.seed is None else ask.seed
        try:
            request = ask_to_pb(ask, seed, ask.tenant or self._tenant)
        except (ValueError, TypeError) as error:
            raise InvalidArgument("ask", f"cannot be sent: {error}") from None
        asking = Asking(request, Orchestrators(self._lines, self._addresses, self._sessions), self._times)
        async with aclosing(asking.events()) as events:
            async for event in events:
                yield event

    async def answer(self, ask: Ask, on_delta: Callable[[Delta], None] = _nothing) -> Answer:
        """A whole answer; ``on_delta`` hears of its parts as they come."""
        started: Started | None = None
        deltas: list[Delta] = []
        async with aclosing(self.stream(ask)) as events:
            async for event in events:
                if isinstance(event, Started):
                    started = event
                elif isinstance(event, Delta):
                    deltas.append(event)
                    on_delta(event)
                else:
                    assert started is not None
                    return _answer(started, deltas, event)
        raise AssertionError("a stream ends with Finished or an error")

    async def info(self) -> pb.GetInfoResponse:
        """What the first orchestrator that answers says of itself and of its replicas."""
        tried: set[str] = set()
        while True:
            address = self._addresses.choose(tried)
            tried.add(address)
            try:
                return await self._lines[address].info(_INFO_S)
            except OutriderError:
                if len(tried) == len(self._addresses):
                    raise


def _answer(started: Started, deltas: list[Delta], finished: Finished) -> Answer:
    return Answer(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=tuple(logprob for delta in deltas for logprob in delta.logprobs),
        started=started,
        finished=finished,
    )
