"""How many threads a model process may use: the cgroup's quota, not the node's cores."""

import math
import os
from pathlib import Path

_CGROUP_V2 = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_V1 = Path("/sys/fs/cgroup/cpu")


def _quota() -> float | None:
    """CPUs that the cgroup grants, or None without a limit."""
    try:
        if _CGROUP_V2.exists():
            limit, period = _CGROUP_V2.read_text().split()
            return None if limit == "max" else int(limit) / int(period)
        limit_us = int((_CGROUP_V1 / "cpu.cfs_quota_us").read_text())
        return None if limit_us <= 0 else limit_us / int((_CGROUP_V1 / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None


def available_threads() -> int:
    """Cores of this process's affinity mask, cut to the cgroup quota; at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota = _quota()
    return max(1, cores if quota is None else min(cores, math.floor(quota)))
