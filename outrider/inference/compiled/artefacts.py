"""Where the machine code of the kernels is kept between starts, and whether it is there.

numba keys its files by function, argument types and processor, but not by what a function imports; so the
folder carries a hash of every kernel source. It does not know what the kernels do.
"""

import hashlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

_HERE = Path(__file__).parent
_SOURCES = sorted([*_HERE.glob("*.py"), _HERE.parent / "attention_cpu.py"])
_BASE = Path(numba.config.CACHE_DIR or Path.home() / ".cache" / "outrider" / "kernels")


def _folder() -> Path:
    """The folder of these sources, or a temporary one where nothing can be written."""
    digest = hashlib.sha256(version("numba").encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    folder = _BASE / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="outrider-kernels-"))
    return folder


FOLDER = _folder()
numba.config.CACHE_DIR = str(FOLDER)

jit: Any = numba.njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
"""Decorator of every kernel: cached, without the interpreter's lock, in strict IEEE order."""


_STAMP = FOLDER / f"{numba.config.CPU_NAME or llvm.get_host_cpu_name()}.ready"


def are_ready() -> bool:
    """Whether all machine code was built before, for this processor."""
    return _STAMP.exists()


def note_ready() -> None:
    """Note that all machine code is there."""
    _STAMP.touch()
