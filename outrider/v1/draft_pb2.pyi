from outrider.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProposeRequest(_message.Message):
    __slots__ = ("session_id", "round", "prefix_len", "prefix_digest", "tokens", "max_draft_tokens", "sampling", "traceparent", "tenant", "look_ahead")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LEN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LOOK_AHEAD_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    round: int
    prefix_len: int
    prefix_digest: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    max_draft_tokens: int
    sampling: _common_pb2.SamplingParams
    traceparent: str
    tenant: str
    look_ahead: LookAhead
    def __init__(self, session_id: _Optional[str] = ..., round: _Optional[int] = ..., prefix_len: _Optional[int] = ..., prefix_digest: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., max_draft_tokens: _Optional[int] = ..., sampling: _Optional[_Union[_common_pb2.SamplingParams, _Mapping]] = ..., traceparent: _Optional[str] = ..., tenant: _Optional[str] = ..., look_ahead: _Optional[_Union[LookAhead, _Mapping]] = ...) -> None: ...

class LookAhead(_message.Message):
    __slots__ = ("draft_tokens", "fanout")
    DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FANOUT_FIELD_NUMBER: _ClassVar[int]
    draft_tokens: _containers.RepeatedScalarFieldContainer[int]
    fanout: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, draft_tokens: _Optional[_Iterable[int]] = ..., fanout: _Optional[_Iterable[int]] = ...) -> None: ...

class ProposeResponse(_message.Message):
    __slots__ = ("round", "block", "cache_miss", "continuations", "incarnation", "timings")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISS_FIELD_NUMBER: _ClassVar[int]
    CONTINUATIONS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    round: int
    block: Block
    cache_miss: _common_pb2.CacheMiss
    continuations: Continuations
    incarnation: int
    timings: _common_pb2.Timings
    def __init__(self, round: _Optional[int] = ..., block: _Optional[_Union[Block, _Mapping]] = ..., cache_miss: _Optional[_Union[_common_pb2.CacheMiss, _Mapping]] = ..., continuations: _Optional[_Union[Continuations, _Mapping]] = ..., incarnation: _Optional[int] = ..., timings: _Optional[_Union[_common_pb2.Timings, _Mapping]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("tokens", "cached_len")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_LEN_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    cached_len: int
    def __init__(self, tokens: _Optional[_Iterable[int]] = ..., cached_len: _Optional[int] = ...) -> None: ...

class Continuations(_message.Message):
    __slots__ = ("continuations",)
    CONTINUATIONS_FIELD_NUMBER: _ClassVar[int]
    continuations: _containers.RepeatedCompositeFieldContainer[Continuation]
    def __init__(self, continuations: _Optional[_Iterable[_Union[Continuation, _Mapping]]] = ...) -> None: ...

class Continuation(_message.Message):
    __slots__ = ("num_accepted", "next_token", "tokens")
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    num_accepted: int
    next_token: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, num_accepted: _Optional[int] = ..., next_token: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ...) -> None: ...

class DraftServiceReleaseRequest(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: _common_pb2.ReleaseRequest
    def __init__(self, release: _Optional[_Union[_common_pb2.ReleaseRequest, _Mapping]] = ...) -> None: ...

class DraftServiceReleaseResponse(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: _common_pb2.ReleaseResponse
    def __init__(self, release: _Optional[_Union[_common_pb2.ReleaseResponse, _Mapping]] = ...) -> None: ...

class DraftServiceGetReplicaInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DraftServiceGetReplicaInfoResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: _common_pb2.ReplicaInfo
    def __init__(self, info: _Optional[_Union[_common_pb2.ReplicaInfo, _Mapping]] = ...) -> None: ...
