"""Protobuf messages that several services share, to and from the values that the rest of the code uses.

It checks what a peer sent and names the field that is wrong; it does not know streams or models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf import unknown_fields
from google.protobuf.message import Message

from outrider.errors import InvalidArgument
from outrider.round_timings import RoundTimings
from outrider.sampling import SamplingParams
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2

PROTOCOL_VERSION = 1
MAX_SESSION_ID = 128
MAX_TENANT = 64
_TENANT = re.compile(rf"[A-Za-z0-9._:@-]{{0,{MAX_TENANT}}}")


@dataclass(frozen=True, slots=True)
class Numerics:
    """What the bits of a logit depend on."""

    hardware: str = ""
    build: str = ""
    dtype: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """How busy a replica is; tokens are whole blocks. What concerns the prefix cache counts since the start of the
    process; ``pass_ms`` is how long the pass in hand has taken so far."""

    sessions: int = 0
    pending_rounds: int = 0
    kv_used_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    pass_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """What a replica says of itself in the handshake; the fields of ``ReplicaInfo``. ``weights`` is the fingerprint of
    its weights."""

    incarnation: int
    model_id: str
    tokenizer_fingerprint: str
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    max_positions: int
    row_invariant: bool
    kv_capacity_tokens: int
    max_draft_tokens: int
    max_run: int = 0
    numerics: Numerics = field(default_factory=Numerics)
    load: LoadFacts = field(default_factory=LoadFacts)
    protocol_version: int = PROTOCOL_VERSION
    weights: str = ""

    @property
    def room(self) -> int:
        """Tokens that a session can have."""
        return min(self.max_positions, self.kv_capacity_tokens)


def numerics_to_pb(numerics: Numerics) -> common_pb2.Numerics:
    """Numerics as a message."""
    return common_pb2.Numerics(
        hardware=numerics.hardware, build=numerics.build, dtype=numerics.dtype, path=numerics.path
    )


def numerics_from_pb(message: common_pb2.Numerics) -> Numerics:
    """Numerics from a message."""
    return Numerics(message.hardware, message.build, message.dtype, message.path)


def load_to_pb(load: LoadFacts) -> common_pb2.Load:
    """A load as a message."""
    return common_pb2.Load(
        sessions=load.sessions,
        pending_rounds=load.pending_rounds,
        kv_used_tokens=load.kv_used_tokens,
        prefix_cache_queries=load.prefix_cache_queries,
        prefix_cache_hits=load.prefix_cache_hits,
        pass_ms=load.pass_ms,
    )


def load_from_pb(load: common_pb2.Load) -> LoadFacts:
    """A load from a message."""
    return LoadFacts(
        load.sessions,
        load.pending_rounds,
        load.kv_used_tokens,
        load.prefix_cache_queries,
        load.prefix_cache_hits,
        load.pass_ms,
    )


def facts_to_pb(facts: ReplicaFacts) -> common_pb2.ReplicaInfo:
    """Replica facts as a message."""
    return common_pb2.ReplicaInfo(
        protocol_version=facts.protocol_version,
        incarnation=facts.incarnation,
        model_id=facts.model_id,
        tokenizer_fingerprint=facts.tokenizer_fingerprint,
        vocab_size=facts.vocab_size,
        eos_token_ids=facts.eos_token_ids,
        max_positions=facts.max_positions,
        numerics=numerics_to_pb(facts.numerics),
        row_invariant=facts.row_invariant,
        kv_capacity_tokens=facts.kv_capacity_tokens,
        max_draft_tokens=facts.max_draft_tokens,
        max_run=facts.max_run,
        weights_fingerprint=facts.weights,
        load=load_to_pb(facts.load),
    )


def facts_from_pb(info: common_pb2.ReplicaInfo) -> ReplicaFacts:
    """Replica facts from a message."""
    return ReplicaFacts(
        incarnation=info.incarnation,
        model_id=info.model_id,
        tokenizer_fingerprint=info.tokenizer_fingerprint,
        vocab_size=info.vocab_size,
        eos_token_ids=tuple(info.eos_token_ids),
        max_positions=info.max_positions,
        row_invariant=info.row_invariant,
        kv_capacity_tokens=info.kv_capacity_tokens,
        max_draft_tokens=info.max_draft_tokens,
        max_run=info.max_run,
        numerics=numerics_from_pb(info.numerics),
        load=load_from_pb(info.load),
        weights=info.weights_fingerprint,
        protocol_version=info.protocol_version,
    )


def sampling_from_pb(message: common_pb2.SamplingParams) -> SamplingParams:
    """Checked parameters. Raises InvalidArgument naming the field."""
    return SamplingParams(
        temperature=float(message.temperature),
        top_k=message.top_k,
        top_p=float(message.top_p) if message.HasField("top_p") else 1.0,
        min_p=float(message.min_p),
        seed=message.seed,
    )


def sampling_to_pb(params: SamplingParams) -> common_pb2.SamplingParams:
    """Parameters as a message; the seed is always set."""
    return common_pb2.SamplingParams(
        temperature=params.temperature, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p, seed=params.seed
    )


def check_session_id(session_id: str) -> str:
    """The id, when it has an allowed length. Raises InvalidArgument."""
    if not 1 <= len(session_id) <= MAX_SESSION_ID:
        raise InvalidArgument("session_id", f"must have 1 to {MAX_SESSION_ID} characters, has {len(session_id)}")
    return session_id


def check_tenant(tenant: str) -> str:
    """The tenant, when it is empty or a short plain name. Raises InvalidArgument."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidArgument("tenant", f"must be at most {MAX_TENANT} letters, digits or ._:@-")
    return tenant


def session_name(tenant: str, session_id: str) -> str:
    """Name of a session within a replica. A tenant has no slash, so equal ids of two tenants never meet."""
    return f"{tenant}/{session_id}"


def check_tokens(name: str, tokens: Sequence[int], vocab_size: int) -> tuple[int, ...]:
    """The ids, when each is in the vocabulary. Raises InvalidArgument naming the first that is not."""
    if tokens and max(tokens) >= vocab_size:
        index, token = next((i, token) for i, token in enumerate(tokens) if token >= vocab_size)
        raise InvalidArgument(f"{name}[{index}]", f"must be 0 to {vocab_size - 1}, got {token}")
    return tuple(tokens)


def claim_from(prefix_len: int, prefix_digest: int, tokens: Sequence[int], vocab_size: int) -> Claim:
    """A checked claim. Raises InvalidArgument."""
    if not tokens:
        raise InvalidArgument("tokens", "must hold at least one token")
    return Claim(prefix_len, prefix_digest, check_tokens("tokens", tokens, vocab_size))


def miss_to_pb(miss: CacheMiss) -> common_pb2.CacheMiss:
    """A cache miss as a message."""
    return common_pb2.CacheMiss(cached_len=miss.cached_len)


def timings_to_pb(timings: RoundTimings) -> common_pb2.Timings:
    """Timings as a message."""
    return common_pb2.Timings(
        queue_us=timings.queue_us,
        forward_us=timings.forward_us,
        passes=timings.passes,
        batch_rows=timings.batch_rows,
        shared_tokens=timings.shared_tokens,
    )


def timings_from_pb(message: common_pb2.Timings) -> RoundTimings:
    """Timings from a message."""
    return RoundTimings(message.queue_us, message.forward_us, message.passes, message.batch_rows, message.shared_tokens)


def refuse_unknown_fields(message: Message, path: str = "") -> None:
    """Refuse fields of a newer protocol, at any depth: ignoring them would change what was asked for."""
    unknown = unknown_fields.UnknownFieldSet(message)
    if len(unknown):
        numbers = sorted({unknown[index].field_number for index in range(len(unknown))})
        raise InvalidArgument(path or "request", f"has fields that this server does not know: numbers {numbers}")
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            name = f"{path}.{descriptor.name}" if path else descriptor.name
            if isinstance(value, Message):
                refuse_unknown_fields(value, name)
            else:
                for index, part in enumerate(value):
                    refuse_unknown_fields(part, f"{name}[{index}]")
