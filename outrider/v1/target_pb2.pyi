from outrider.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerifyRequest(_message.Message):
    __slots__ = ("session_id", "round", "prefix_len", "prefix_digest", "tokens", "draft_tokens", "sampling", "logprobs", "traceparent", "tenant", "run")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LEN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DRAFT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    round: int
    prefix_len: int
    prefix_digest: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    draft_tokens: _containers.RepeatedScalarFieldContainer[int]
    sampling: _common_pb2.SamplingParams
    logprobs: bool
    traceparent: str
    tenant: str
    run: int
    def __init__(self, session_id: _Optional[str] = ..., round: _Optional[int] = ..., prefix_len: _Optional[int] = ..., prefix_digest: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., draft_tokens: _Optional[_Iterable[int]] = ..., sampling: _Optional[_Union[_common_pb2.SamplingParams, _Mapping]] = ..., logprobs: bool = ..., traceparent: _Optional[str] = ..., tenant: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("round", "verdict", "cache_miss", "incarnation", "timings", "load")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    round: int
    verdict: Verdict
    cache_miss: _common_pb2.CacheMiss
    incarnation: int
    timings: _common_pb2.Timings
    load: _common_pb2.Load
    def __init__(self, round: _Optional[int] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., cache_miss: _Optional[_Union[_common_pb2.CacheMiss, _Mapping]] = ..., incarnation: _Optional[int] = ..., timings: _Optional[_Union[_common_pb2.Timings, _Mapping]] = ..., load: _Optional[_Union[_common_pb2.Load, _Mapping]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("num_accepted", "next_token", "token_logprobs", "cached_len")
    NUM_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    CACHED_LEN_FIELD_NUMBER: _ClassVar[int]
    num_accepted: int
    next_token: int
    token_logprobs: _containers.RepeatedScalarFieldContainer[float]
    cached_len: int
    def __init__(self, num_accepted: _Optional[int] = ..., next_token: _Optional[int] = ..., token_logprobs: _Optional[_Iterable[float]] = ..., cached_len: _Optional[int] = ...) -> None: ...

class TargetServiceReleaseRequest(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: _common_pb2.ReleaseRequest
    def __init__(self, release: _Optional[_Union[_common_pb2.ReleaseRequest, _Mapping]] = ...) -> None: ...

class TargetServiceReleaseResponse(_message.Message):
    __slots__ = ("release",)
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    release: _common_pb2.ReleaseResponse
    def __init__(self, release: _Optional[_Union[_common_pb2.ReleaseResponse, _Mapping]] = ...) -> None: ...

class TargetServiceGetReplicaInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TargetServiceGetReplicaInfoResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: _common_pb2.ReplicaInfo
    def __init__(self, info: _Optional[_Union[_common_pb2.ReplicaInfo, _Mapping]] = ...) -> None: ...
