"""Which weights a folder holds, told without reading all of them: by their configuration, and by samples of each file
and of each tensor.

Two models of one family have files of equal names, sizes and headers; what differs is the numbers, so numbers are
looked at. It tells honest operators that two folders differ, or are the same; it is no defence against an adversary.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PATTERNS = ("config.json", "*.safetensors")
_SAMPLES = 64
_SAMPLE_BYTES = 4096
_TENSOR_BYTES = 512
_MOST_HEADER = 100_000_000


def weights_fingerprint(folder: str) -> str:
    """32 hex digits, equal for equal copies wherever they are."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _PATTERNS for path in Path(folder).glob(pattern)}, key=lambda p: p.name):
        _add(digest, path)
    return digest.hexdigest()[:32]


def _add(digest: "hashlib._Hash", path: Path) -> None:
    """The file's name, its size and pieces of it."""
    size = path.stat().st_size
    digest.update(f"{path.name} {size}\0".encode())
    with path.open("rb") as file:
        for start, length in (*_even(size), *_of_tensors(file, size)):
            file.seek(start)
            digest.update(file.read(length))


def _even(size: int) -> Iterator[tuple[int, int]]:
    """Pieces at equal distances, the first and the last among them."""
    last = max(0, size - _SAMPLE_BYTES)
    return ((last * number // (_SAMPLES - 1), _SAMPLE_BYTES) for number in range(_SAMPLES))


def _of_tensors(file: BinaryIO, size: int) -> list[tuple[int, int]]:
    """A piece of the middle of each tensor of a safetensors file; nothing of any other."""
    file.seek(0)
    header = int.from_bytes(file.read(8), "little")
    if not 2 <= header <= min(size - 8, _MOST_HEADER):
        return []
    try:
        tensors = json.loads(file.read(header))
        spans = [entry["data_offsets"] for name, entry in tensors.items() if name != "__metadata__"]
        return [(8 + header + max(begin, (begin + end - _TENSOR_BYTES) // 2), _TENSOR_BYTES) for begin, end in spans]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
