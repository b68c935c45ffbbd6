"""What a client asks for: one turn, as a value. It knows neither messages on the wire nor what becomes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrider.errors import InvalidArgument
from outrider.sampling import SamplingParams

_GREEDY = SamplingParams()


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; ``role`` is "system", "user", "assistant", or what else the model's template knows."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One turn: exactly one of ``prompt`` (text as it is), ``token_ids`` and ``messages`` (a chat). In a session that
    goes on (``session_id``) it holds what is new since the last answer. Raises InvalidArgument.

    ``draft_tokens`` None leaves speculation to the server, 0 turns it off, more is the number per round: it changes the
    speed, never the text. Without a ``seed`` the client draws one; ``sampling.seed`` is not looked at. ``tenant`` is
    the client's unless it is named here; ``turn`` (of a session that goes on: its complete turns) is what the client
    remembers of its sessions. Everything else is as in ``GenerateRequest`` of the protocol.
    """

    prompt: str | None = None
    token_ids: Sequence[int] | None = None
    messages: Sequence[Message] | None = None
    sampling: SamplingParams = _GREEDY
    seed: int | None = None
    max_new_tokens: int | None = None
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    draft_tokens: int | None = None
    logprobs: bool = False
    ignore_eos: bool = False
    session_id: str = ""
    keep_session: bool = False
    tenant: str = ""
    turn: int | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.prompt, self.token_ids, self.messages)) != 1:
            raise InvalidArgument("input", "exactly one of prompt, token_ids and messages must be given")

    @classmethod
    def user(cls, text: str, system: str = "", **fields: Any) -> "Ask":
        """A chat of one message, after a system message if there is one."""
        first = (Message("system", system),) if system else ()
        return cls(messages=(*first, Message("user", text)), **fields)
