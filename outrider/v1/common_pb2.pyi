from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SamplingParams(_message.Message):
    __slots__ = ("temperature", "top_k", "top_p", "min_p", "seed")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class Numerics(_message.Message):
    __slots__ = ("hardware", "build", "dtype", "path")
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    hardware: str
    build: str
    dtype: str
    path: str
    def __init__(self, hardware: _Optional[str] = ..., build: _Optional[str] = ..., dtype: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class ReplicaInfo(_message.Message):
    __slots__ = ("protocol_version", "incarnation", "model_id", "tokenizer_fingerprint", "vocab_size", "eos_token_ids", "max_positions", "numerics", "row_invariant", "kv_capacity_tokens", "max_draft_tokens", "load", "max_run", "weights_fingerprint")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    NUMERICS_FIELD_NUMBER: _ClassVar[int]
    ROW_INVARIANT_FIELD_NUMBER: _ClassVar[int]
    KV_CAPACITY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MAX_RUN_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    incarnation: int
    model_id: str
    tokenizer_fingerprint: str
    vocab_size: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    max_positions: int
    numerics: Numerics
    row_invariant: bool
    kv_capacity_tokens: int
    max_draft_tokens: int
    load: Load
    max_run: int
    weights_fingerprint: str
    def __init__(self, protocol_version: _Optional[int] = ..., incarnation: _Optional[int] = ..., model_id: _Optional[str] = ..., tokenizer_fingerprint: _Optional[str] = ..., vocab_size: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., max_positions: _Optional[int] = ..., numerics: _Optional[_Union[Numerics, _Mapping]] = ..., row_invariant: bool = ..., kv_capacity_tokens: _Optional[int] = ..., max_draft_tokens: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., max_run: _Optional[int] = ..., weights_fingerprint: _Optional[str] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("sessions", "pending_rounds", "kv_used_tokens", "prefix_cache_queries", "prefix_cache_hits", "pass_ms")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    KV_USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_CACHE_QUERIES_FIELD_NUMBER: _ClassVar[int]
    PREFIX_CACHE_HITS_FIELD_NUMBER: _ClassVar[int]
    PASS_MS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    pending_rounds: int
    kv_used_tokens: int
    prefix_cache_queries: int
    prefix_cache_hits: int
    pass_ms: int
    def __init__(self, sessions: _Optional[int] = ..., pending_rounds: _Optional[int] = ..., kv_used_tokens: _Optional[int] = ..., prefix_cache_queries: _Optional[int] = ..., prefix_cache_hits: _Optional[int] = ..., pass_ms: _Optional[int] = ...) -> None: ...

class CacheMiss(_message.Message):
    __slots__ = ("cached_len",)
    CACHED_LEN_FIELD_NUMBER: _ClassVar[int]
    cached_len: int
    def __init__(self, cached_len: _Optional[int] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("queue_us", "forward_us", "passes", "batch_rows", "shared_tokens")
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    FORWARD_US_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    SHARED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    queue_us: int
    forward_us: int
    passes: int
    batch_rows: int
    shared_tokens: int
    def __init__(self, queue_us: _Optional[int] = ..., forward_us: _Optional[int] = ..., passes: _Optional[int] = ..., batch_rows: _Optional[int] = ..., shared_tokens: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("session_id", "tenant")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    tenant: str
    def __init__(self, session_id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: bool = ...) -> None: ...
