"""Strategies for messages of any type, made from its descriptor: some as they should be, most not.

Values are small and plausible, at the edges of their types, or far off; what comes out is then sent as it is, or with
its bytes changed. It does not know what any field means.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

_SMALL = [0, 1, 2, 3, 5, 16, 17]
_EDGES: dict[int, list[int]] = {
    32: [2**31 - 1, 2**31, 2**32 - 1],
    64: [2**32, 2**63 - 1, 2**63, 2**64 - 1],
}
_TEXTS = ["", "s", "t", "abc", "x" * 128, "x" * 129, "\N{SNOWMAN}", "a/b", "\0", "0" * 32]
_UNSIGNED = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}
_SIGNED = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
_FLOATS = [0.0, 0.8, 1.0, -1.0, 1e-30, 100.0, float("nan"), float("inf"), 1e38]
_MOST = 12


def _numbers(field: FieldDescriptor) -> st.SearchStrategy[int]:
    kind = field.cpp_type
    if kind in _UNSIGNED:
        return st.sampled_from(_SMALL + _EDGES[32] + (_EDGES[64] if _UNSIGNED[kind] == 64 else []))
    top = 2 ** (_SIGNED[kind] - 1)
    return st.sampled_from([*_SMALL, -1, -top, top - 1])


def _values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if kind in _UNSIGNED or kind in _SIGNED:
        return _numbers(field)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([0, 1, 2, 3, 4, 99])
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return st.sampled_from(_FLOATS)
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return messages(class_of(field.message_type))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=_MOST)
    return st.sampled_from(_TEXTS)


def class_of(descriptor: Any) -> Callable[[], Message]:
    """The class of messages of a type."""
    kind: Callable[[], Message] = descriptor._concrete_class
    return kind


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(message, field.name).CopyFrom(value)
    else:
        setattr(message, field.name, value)


@st.composite
def messages(draw: st.DrawFn, kind: Callable[[], Message]) -> Message:
    """A message of a type, each field set or not."""
    message = kind()
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if draw(st.booleans()):
            one = _values(field)
            _put(message, field, draw(st.lists(one, max_size=_MOST) if field.is_repeated else one))
    return message


@st.composite
def payloads(draw: st.DrawFn, kind: Callable[[], Message]) -> bytes:
    """The bytes of a message: its own, cut, with some changed or added, or none of a message at all."""
    data = draw(messages(kind)).SerializeToString()
    how = draw(st.sampled_from(["whole"] * 6 + ["cut", "changed", "added", "noise"]))
    if how == "noise":
        return draw(st.binary(max_size=64))
    place = draw(st.integers(0, len(data)))
    if how == "cut":
        return data[:place]
    more = draw(st.binary(min_size=1, max_size=4))
    return data if how == "whole" else data[:place] + more + data[place + (len(more) if how == "changed" else 0) :]
