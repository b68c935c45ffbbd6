from outrider.v1 import orchestrator_pb2 as _orchestrator_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JournalledHistory(_message.Message):
    __slots__ = ("tokens", "chat", "turns", "tokenizer_fingerprint")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    chat: _orchestrator_pb2.Chat
    turns: int
    tokenizer_fingerprint: str
    def __init__(self, tokens: _Optional[_Iterable[int]] = ..., chat: _Optional[_Union[_orchestrator_pb2.Chat, _Mapping]] = ..., turns: _Optional[int] = ..., tokenizer_fingerprint: _Optional[str] = ...) -> None: ...

class JournalledAnswer(_message.Message):
    __slots__ = ("request", "history", "weights_fingerprint")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    request: _orchestrator_pb2.GenerateRequest
    history: JournalledHistory
    weights_fingerprint: str
    def __init__(self, request: _Optional[_Union[_orchestrator_pb2.GenerateRequest, _Mapping]] = ..., history: _Optional[_Union[JournalledHistory, _Mapping]] = ..., weights_fingerprint: _Optional[str] = ...) -> None: ...
