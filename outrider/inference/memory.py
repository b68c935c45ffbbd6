"""How large the KV cache may be when nobody says (OUTRIDER_KV_BYTES=auto): a share of what is free now.

It is asked after the weights are loaded. On a CPU what is free is the smaller of MemAvailable and what every
cgroup above the process leaves (limit minus usage, page cache that can be dropped not counted as used); on CUDA
what the driver says. The cache takes SHARE of it, so that two model processes that start on one machine at once
both fit, and no more than FULL_SESSIONS sessions of the model's greatest length could use.

The tensors of the cache are really there from the start: ``kv_store.py`` fills them with zeros, which touches
every page once, so what is free is known and the process does not grow afterwards. It knows files and numbers,
not models.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

log = logging.getLogger(__name__)
SHARE = 0.4
FULL_SESSIONS = 16
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where one version of the interface keeps its numbers."""

    mount: str
    limit: str
    usage: str
    inactive: str


_V1 = Cgroup("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = Cgroup("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def kv_bytes(free: int, full_session: int) -> int:
    """Bytes for the cache when ``free`` are free and a session of the greatest length takes ``full_session``."""
    return min(int(free * SHARE), FULL_SESSIONS * full_session)


def choose_kv_bytes(device: torch.device, full_session: int) -> int:
    """The size of the cache on a device, measured now and logged."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_bytes()
    chosen = kv_bytes(free, full_session)
    words = "KV cache: %d MiB chosen, of %d MiB free on %s (at most %g of it, at most %d sessions of %d MiB)"
    log.info(words, chosen >> 20, free >> 20, device, SHARE, FULL_SESSIONS, full_session >> 20)
    return chosen


def free_bytes(root: Path = Path("/")) -> int:
    """Memory that this process could still take; ``root`` is the file system's, for tests."""
    available = _field(root / "proc/meminfo", "MemAvailable:") * 1024
    return max(0, min([available, *_left_in_cgroups(root)]))


def _left_in_cgroups(root: Path) -> Iterator[int]:
    """What each limited cgroup from the process's own up to the mount leaves."""
    for kind, folder in _cgroup_folders(root):
        try:
            limit, usage = (int((folder / name).read_text()) for name in (kind.limit, kind.usage))
            if limit < _UNLIMITED:
                yield limit - usage + _field(folder / "memory.stat", kind.inactive)
        except (OSError, ValueError):
            continue  # no limit here ("max"), or not ours to read


def _cgroup_folders(root: Path) -> Iterator[tuple[Cgroup, Path]]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            kind = _V1 if controllers else _V2
            own = root / kind.mount / path.strip("/")
            yield from ((kind, folder) for folder in (own, *own.parents) if folder.is_relative_to(root / kind.mount))


def _field(file: Path, name: str) -> int:
    """The number after a name in a file of lines "name number"; 0 when it is not there."""
    for line in file.read_text().splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return 0
