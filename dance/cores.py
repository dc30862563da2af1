"""How many cores there are for us."""

from __future__ import annotations

import os
from pathlib import Path


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores of the affinity mask, bounded by the container's quota; at least one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        limit, period = quota.read_text().split()
        return max(1, min(allowed, int(limit) // int(period)))
    except (OSError, ValueError):  # no container, or "max"
        return allowed
