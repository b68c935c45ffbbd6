"""Where the machine code of the kernels is kept between starts, and whether it is there.

numba keys its files by function, argument types and processor, but not by what a function imports; so the
folder carries a hash of every kernel source. It does not know what the kernels do.
"""

import hashlib
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

_HERE = Path(__file__).parent
_SOURCES = sorted([*_HERE.glob("*.py"), _HERE.parent / "attention_cpu.py"])
_BASE = Path(numba.config.CACHE_DIR or Path.home() / ".cache" / "outrider" / "kernels")

_BROUGHT = Path(sys.prefix) / "share" / "outrider" / "kernels"
"""What an image has built in. Its root may be read-only, and numba wants a folder that it can write to."""


def bring(built: Path, folder: Path) -> None:
    """Copy machine code that was built elsewhere, where there is some and none is here. For another processor it is of
    no use and does no harm."""
    if built.is_dir() and built != folder and not any(folder.glob("*.ready")):
        shutil.copytree(built, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock", ".writable"))


def _folder() -> Path:
    """The folder of these sources, or a temporary one where nothing can be written."""
    digest = hashlib.sha256(version("numba").encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    name = digest.hexdigest()[:16]
    folder = _BASE / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="outrider-kernels-"))
    bring(_BROUGHT / name, folder)
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
