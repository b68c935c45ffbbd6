"""Which weights a folder holds, told without reading all of them: by their configuration, and by samples of each file.

Two models of one family have files of equal names, sizes and headers; what differs is the numbers, so numbers are
looked at. It tells honest operators that two folders differ, or are the same; it is no defence against an adversary.
"""

import hashlib
from pathlib import Path

_PATTERNS = ("config.json", "*.safetensors", "*.bin")
_SAMPLES = 64
_SAMPLE_BYTES = 4096


def weights_fingerprint(folder: str) -> str:
    """32 hex digits, equal for equal copies wherever they are."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _PATTERNS for path in Path(folder).glob(pattern)}, key=lambda p: p.name):
        _add(digest, path)
    return digest.hexdigest()[:32]


def _add(digest: "hashlib._Hash", path: Path) -> None:
    """The file's name, its size and pieces of it at equal distances, the first and the last among them."""
    size = path.stat().st_size
    digest.update(f"{path.name} {size}\0".encode())
    last = max(0, size - _SAMPLE_BYTES)
    with path.open("rb") as file:
        for number in range(_SAMPLES):
            file.seek(last * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
