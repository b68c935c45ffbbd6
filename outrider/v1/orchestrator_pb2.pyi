from outrider.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SpeculationMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPECULATION_MODE_UNSPECIFIED: _ClassVar[SpeculationMode]
    SPECULATION_MODE_AUTO: _ClassVar[SpeculationMode]
    SPECULATION_MODE_OFF: _ClassVar[SpeculationMode]
    SPECULATION_MODE_FIXED: _ClassVar[SpeculationMode]

class Drafter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRAFTER_UNSPECIFIED: _ClassVar[Drafter]
    DRAFTER_MODEL: _ClassVar[Drafter]
    DRAFTER_NGRAM: _ClassVar[Drafter]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]

class JournalState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOURNAL_STATE_UNSPECIFIED: _ClassVar[JournalState]
    JOURNAL_STATE_ABSENT: _ClassVar[JournalState]
    JOURNAL_STATE_READY: _ClassVar[JournalState]
    JOURNAL_STATE_UNAVAILABLE: _ClassVar[JournalState]

class ReplicaState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICA_STATE_UNSPECIFIED: _ClassVar[ReplicaState]
    REPLICA_STATE_READY: _ClassVar[ReplicaState]
    REPLICA_STATE_UNAVAILABLE: _ClassVar[ReplicaState]
    REPLICA_STATE_REFUSED: _ClassVar[ReplicaState]
    REPLICA_STATE_ABSENT: _ClassVar[ReplicaState]
SPECULATION_MODE_UNSPECIFIED: SpeculationMode
SPECULATION_MODE_AUTO: SpeculationMode
SPECULATION_MODE_OFF: SpeculationMode
SPECULATION_MODE_FIXED: SpeculationMode
DRAFTER_UNSPECIFIED: Drafter
DRAFTER_MODEL: Drafter
DRAFTER_NGRAM: Drafter
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
JOURNAL_STATE_UNSPECIFIED: JournalState
JOURNAL_STATE_ABSENT: JournalState
JOURNAL_STATE_READY: JournalState
JOURNAL_STATE_UNAVAILABLE: JournalState
REPLICA_STATE_UNSPECIFIED: ReplicaState
REPLICA_STATE_READY: ReplicaState
REPLICA_STATE_UNAVAILABLE: ReplicaState
REPLICA_STATE_REFUSED: ReplicaState
REPLICA_STATE_ABSENT: ReplicaState

class GenerateRequest(_message.Message):
    __slots__ = ("session_id", "prompt", "token_ids", "chat", "sampling", "max_new_tokens", "stop", "stop_token_ids", "speculation", "logprobs", "n", "resume_from", "keep_session", "ignore_eos", "tenant", "turn")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    MAX_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    RESUME_FROM_FIELD_NUMBER: _ClassVar[int]
    KEEP_SESSION_FIELD_NUMBER: _ClassVar[int]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    prompt: str
    token_ids: TokenIds
    chat: Chat
    sampling: _common_pb2.SamplingParams
    max_new_tokens: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    speculation: Speculation
    logprobs: bool
    n: int
    resume_from: int
    keep_session: bool
    ignore_eos: bool
    tenant: str
    turn: int
    def __init__(self, session_id: _Optional[str] = ..., prompt: _Optional[str] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., chat: _Optional[_Union[Chat, _Mapping]] = ..., sampling: _Optional[_Union[_common_pb2.SamplingParams, _Mapping]] = ..., max_new_tokens: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., speculation: _Optional[_Union[Speculation, _Mapping]] = ..., logprobs: bool = ..., n: _Optional[int] = ..., resume_from: _Optional[int] = ..., keep_session: bool = ..., ignore_eos: bool = ..., tenant: _Optional[str] = ..., turn: _Optional[int] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Chat(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping]]] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class Speculation(_message.Message):
    __slots__ = ("mode", "draft_tokens")
    MODE_FIELD_NUMBER: _ClassVar[int]
    DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    mode: SpeculationMode
    draft_tokens: int
    def __init__(self, mode: _Optional[_Union[SpeculationMode, str]] = ..., draft_tokens: _Optional[int] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("started", "delta", "finished")
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    started: Started
    delta: Delta
    finished: Finished
    def __init__(self, started: _Optional[_Union[Started, _Mapping]] = ..., delta: _Optional[_Union[Delta, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("session_id", "seed", "target_model", "draft_model", "prompt_tokens", "resumable", "turn")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TARGET_MODEL_FIELD_NUMBER: _ClassVar[int]
    DRAFT_MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    seed: int
    target_model: str
    draft_model: str
    prompt_tokens: int
    resumable: bool
    turn: int
    def __init__(self, session_id: _Optional[str] = ..., seed: _Optional[int] = ..., target_model: _Optional[str] = ..., draft_model: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., resumable: bool = ..., turn: _Optional[int] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("text", "token_ids", "logprobs", "round")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    round: RoundStats
    def __init__(self, text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., round: _Optional[_Union[RoundStats, _Mapping]] = ...) -> None: ...

class RoundStats(_message.Message):
    __slots__ = ("round", "draft_tokens", "num_accepted", "propose_us", "verify_us", "drafter", "prepared")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    PROPOSE_US_FIELD_NUMBER: _ClassVar[int]
    VERIFY_US_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    round: int
    draft_tokens: _containers.RepeatedScalarFieldContainer[int]
    num_accepted: int
    propose_us: int
    verify_us: int
    drafter: Drafter
    prepared: bool
    def __init__(self, round: _Optional[int] = ..., draft_tokens: _Optional[_Iterable[int]] = ..., num_accepted: _Optional[int] = ..., propose_us: _Optional[int] = ..., verify_us: _Optional[int] = ..., drafter: _Optional[_Union[Drafter, str]] = ..., prepared: bool = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("reason", "usage", "speculation", "numerics_changed", "turns")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    reason: FinishReason
    usage: Usage
    speculation: SpeculationSummary
    numerics_changed: bool
    turns: int
    def __init__(self, reason: _Optional[_Union[FinishReason, str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., speculation: _Optional[_Union[SpeculationSummary, _Mapping]] = ..., numerics_changed: bool = ..., turns: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_prompt_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_prompt_tokens: _Optional[int] = ...) -> None: ...

class SpeculationSummary(_message.Message):
    __slots__ = ("rounds", "proposed", "accepted", "emitted", "draft_faults", "copied", "look_aheads", "look_ahead_hits")
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    EMITTED_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FAULTS_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEADS_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEAD_HITS_FIELD_NUMBER: _ClassVar[int]
    rounds: int
    proposed: int
    accepted: int
    emitted: int
    draft_faults: int
    copied: int
    look_aheads: int
    look_ahead_hits: int
    def __init__(self, rounds: _Optional[int] = ..., proposed: _Optional[int] = ..., accepted: _Optional[int] = ..., emitted: _Optional[int] = ..., draft_faults: _Optional[int] = ..., copied: _Optional[int] = ..., look_aheads: _Optional[int] = ..., look_ahead_hits: _Optional[int] = ...) -> None: ...

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("protocol_version", "incarnation", "target", "draft", "sessions", "active_requests", "max_draft_tokens", "targets", "drafts", "journal", "waiting_requests", "totals")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    incarnation: int
    target: ReplicaStatus
    draft: ReplicaStatus
    sessions: int
    active_requests: int
    max_draft_tokens: int
    targets: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    drafts: _containers.RepeatedCompositeFieldContainer[ReplicaStatus]
    journal: JournalState
    waiting_requests: int
    totals: Totals
    def __init__(self, protocol_version: _Optional[int] = ..., incarnation: _Optional[int] = ..., target: _Optional[_Union[ReplicaStatus, _Mapping]] = ..., draft: _Optional[_Union[ReplicaStatus, _Mapping]] = ..., sessions: _Optional[int] = ..., active_requests: _Optional[int] = ..., max_draft_tokens: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ..., drafts: _Optional[_Iterable[_Union[ReplicaStatus, _Mapping]]] = ..., journal: _Optional[_Union[JournalState, str]] = ..., waiting_requests: _Optional[int] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ...) -> None: ...

class Totals(_message.Message):
    __slots__ = ("requests", "rounds", "proposed", "accepted", "emitted", "look_aheads", "look_ahead_hits", "proposed_at", "accepted_at", "failovers", "cache_misses", "prompt_tokens", "rounds_by_mode")
    class RoundsByModeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    EMITTED_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEADS_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEAD_HITS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_AT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    FAILOVERS_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISSES_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_BY_MODE_FIELD_NUMBER: _ClassVar[int]
    requests: int
    rounds: int
    proposed: int
    accepted: int
    emitted: int
    look_aheads: int
    look_ahead_hits: int
    proposed_at: _containers.RepeatedScalarFieldContainer[int]
    accepted_at: _containers.RepeatedScalarFieldContainer[int]
    failovers: int
    cache_misses: int
    prompt_tokens: int
    rounds_by_mode: _containers.ScalarMap[str, int]
    def __init__(self, requests: _Optional[int] = ..., rounds: _Optional[int] = ..., proposed: _Optional[int] = ..., accepted: _Optional[int] = ..., emitted: _Optional[int] = ..., look_aheads: _Optional[int] = ..., look_ahead_hits: _Optional[int] = ..., proposed_at: _Optional[_Iterable[int]] = ..., accepted_at: _Optional[_Iterable[int]] = ..., failovers: _Optional[int] = ..., cache_misses: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., rounds_by_mode: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListRequestsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ListRequestsResponse(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[RequestSummary]
    def __init__(self, requests: _Optional[_Iterable[_Union[RequestSummary, _Mapping]]] = ...) -> None: ...

class RequestSummary(_message.Message):
    __slots__ = ("session_id", "trace_id", "started_unix_ns", "took_us", "outcome", "running", "prompt_tokens", "completion_tokens", "rounds", "proposed", "accepted", "first_token_us")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    TOOK_US_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_US_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    trace_id: str
    started_unix_ns: int
    took_us: int
    outcome: str
    running: bool
    prompt_tokens: int
    completion_tokens: int
    rounds: int
    proposed: int
    accepted: int
    first_token_us: int
    def __init__(self, session_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., started_unix_ns: _Optional[int] = ..., took_us: _Optional[int] = ..., outcome: _Optional[str] = ..., running: bool = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., rounds: _Optional[int] = ..., proposed: _Optional[int] = ..., accepted: _Optional[int] = ..., first_token_us: _Optional[int] = ...) -> None: ...

class GetTraceRequest(_message.Message):
    __slots__ = ("id", "tenant")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class GetTraceResponse(_message.Message):
    __slots__ = ("otlp_json",)
    OTLP_JSON_FIELD_NUMBER: _ClassVar[int]
    otlp_json: str
    def __init__(self, otlp_json: _Optional[str] = ...) -> None: ...

class ReplicaStatus(_message.Message):
    __slots__ = ("address", "state", "reason", "info", "sessions", "leaving")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    address: str
    state: ReplicaState
    reason: str
    info: _common_pb2.ReplicaInfo
    sessions: int
    leaving: bool
    def __init__(self, address: _Optional[str] = ..., state: _Optional[_Union[ReplicaState, str]] = ..., reason: _Optional[str] = ..., info: _Optional[_Union[_common_pb2.ReplicaInfo, _Mapping]] = ..., sessions: _Optional[int] = ..., leaving: bool = ...) -> None: ...
