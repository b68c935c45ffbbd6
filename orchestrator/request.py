"""A GenerateRequest, checked: every field is honoured or refused by name (design I4).

It knows the message and the limits, not sessions or replicas.
"""

import dataclasses
import secrets
from dataclasses import dataclass

from orchestrator.config import OrchestratorConfig
from orchestrator.speculation import Mode, Speculation
from outrider.errors import InvalidArgument
from outrider.sampling import SamplingParams
from outrider.tokenizer import Message
from outrider.v1 import orchestrator_pb2
from outrider.wire import MAX_SESSION_ID, check_tenant, check_tokens, refuse_unknown_fields, sampling_from_pb

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_IDS = 64
_WITH_RESUME_FROM = ("session_id", "resume_from", "tenant")


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a turn adds: exactly one of the three is not None."""

    prompt: str | None = None
    token_ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] | None = None

    @property
    def field(self) -> str:
        """Name of the request field that holds it."""
        return "prompt" if self.prompt is not None else "token_ids" if self.token_ids is not None else "chat"


@dataclass(frozen=True, slots=True)
class Turn:
    """A checked request. ``turn``: how many complete turns its session is said to have."""

    session_id: str
    input: TurnInput
    params: SamplingParams
    max_new_tokens: int
    stops: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    speculation: Speculation
    logprobs: bool
    keep_session: bool
    ignore_eos: bool
    tenant: str = ""
    turn: int | None = None


def _read_chat(chat: orchestrator_pb2.Chat) -> tuple[Message, ...]:
    if not chat.messages:
        raise InvalidArgument("chat.messages", "must hold at least one message")
    for index, message in enumerate(chat.messages):
        if not message.role:
            raise InvalidArgument(f"chat.messages[{index}].role", "must not be empty")
    if not chat.messages[-1].content:
        raise InvalidArgument(
            f"chat.messages[{len(chat.messages) - 1}].content", "must not be empty in the last message"
        )
    return tuple({"role": message.role, "content": message.content} for message in chat.messages)


def _read_input(request: orchestrator_pb2.GenerateRequest, vocab_size: int) -> TurnInput:
    which = request.WhichOneof("input")
    if which == "prompt":
        if not request.prompt:
            raise InvalidArgument("prompt", "must not be empty")
        return TurnInput(prompt=request.prompt)
    if which == "token_ids":
        if not request.token_ids.ids:
            raise InvalidArgument("token_ids.ids", "must hold at least one id")
        return TurnInput(token_ids=check_tokens("token_ids.ids", request.token_ids.ids, vocab_size))
    if which == "chat":
        return TurnInput(messages=_read_chat(request.chat))
    raise InvalidArgument("input", "exactly one of prompt, token_ids and chat must be set")


def _read_params(request: orchestrator_pb2.GenerateRequest) -> SamplingParams:
    """Sampling parameters; a request without a seed gets a random one."""
    params = sampling_from_pb(request.sampling)
    return params if request.sampling.HasField("seed") else dataclasses.replace(params, seed=secrets.randbits(64))


def _read_speculation(message: orchestrator_pb2.Speculation, most: int) -> Speculation:
    modes = {
        orchestrator_pb2.SPECULATION_MODE_UNSPECIFIED: Mode.AUTO,
        orchestrator_pb2.SPECULATION_MODE_AUTO: Mode.AUTO,
        orchestrator_pb2.SPECULATION_MODE_OFF: Mode.OFF,
        orchestrator_pb2.SPECULATION_MODE_FIXED: Mode.FIXED,
    }
    mode = modes.get(message.mode)
    if mode is None:
        raise InvalidArgument("speculation.mode", f"must be AUTO, OFF or FIXED, got {message.mode}")
    if mode is Mode.FIXED and not 1 <= message.draft_tokens <= most:
        raise InvalidArgument("speculation.draft_tokens", f"must be 1 to {most}, got {message.draft_tokens}")
    if mode is not Mode.FIXED and message.draft_tokens != 0:
        got = f"got {message.draft_tokens} with mode {mode.name}"
        raise InvalidArgument("speculation.draft_tokens", f"must be 0 unless the mode is FIXED, {got}")
    return Speculation(mode, message.draft_tokens)


def _read_stops(stops: list[str]) -> tuple[str, ...]:
    if len(stops) > MAX_STOPS:
        raise InvalidArgument("stop", f"at most {MAX_STOPS} texts, got {len(stops)}")
    for index, stop in enumerate(stops):
        if not 1 <= len(stop) <= MAX_STOP_CHARACTERS:
            got = f"must have 1 to {MAX_STOP_CHARACTERS} characters, has {len(stop)}"
            raise InvalidArgument(f"stop[{index}]", got)
    return tuple(stops)


def _refuse_unsupported(request: orchestrator_pb2.GenerateRequest) -> None:
    refuse_unknown_fields(request)
    if request.n > 1:
        raise InvalidArgument("n", f"only 1 answer per request is supported, got {request.n}")
    if request.HasField("turn") and not request.session_id:
        raise InvalidArgument("turn", "needs session_id: a new session has no turns")
    if len(request.session_id) > MAX_SESSION_ID:
        raise InvalidArgument("session_id", f"must have at most {MAX_SESSION_ID} characters")


def read_resumption(request: orchestrator_pb2.GenerateRequest) -> tuple[str, int] | None:
    """Session and number of tokens of a request for the rest of an answer; None for any other request.

    Raises InvalidArgument: the answer is as it was asked for, so nothing else can be asked for now.
    """
    if not request.HasField("resume_from"):
        return None
    refuse_unknown_fields(request)
    if not request.session_id:
        raise InvalidArgument("session_id", "must be set beside resume_from, as the lost answer's Started named it")
    for field, _ in request.ListFields():
        if field.name not in _WITH_RESUME_FROM:
            raise InvalidArgument(field.name, "must be unset beside resume_from: the answer is as it was asked for")
    return request.session_id, request.resume_from


def read_turn(
    request: orchestrator_pb2.GenerateRequest, config: OrchestratorConfig, vocab_size: int, most_draft_tokens: int
) -> Turn:
    """The checked request. Raises InvalidArgument naming the first field that is wrong.

    ``vocab_size`` and ``most_draft_tokens`` are the target's.
    """
    _refuse_unsupported(request)
    max_new_tokens = request.max_new_tokens if request.HasField("max_new_tokens") else config.default_max_new_tokens
    if max_new_tokens < 1:
        raise InvalidArgument("max_new_tokens", f"must be at least 1, got {max_new_tokens}")
    if len(request.stop_token_ids) > MAX_STOP_IDS:
        raise InvalidArgument("stop_token_ids", f"at most {MAX_STOP_IDS} ids, got {len(request.stop_token_ids)}")
    return Turn(
        session_id=request.session_id,
        input=_read_input(request, vocab_size),
        params=_read_params(request),
        max_new_tokens=max_new_tokens,
        stops=_read_stops(list(request.stop)),
        stop_token_ids=check_tokens("stop_token_ids", request.stop_token_ids, vocab_size),
        speculation=_read_speculation(request.speculation, min(config.max_draft_tokens, most_draft_tokens)),
        logprobs=request.logprobs,
        keep_session=request.keep_session,
        ignore_eos=request.ignore_eos,
        tenant=check_tenant(request.tenant),
        turn=request.turn if request.HasField("turn") else None,
    )
