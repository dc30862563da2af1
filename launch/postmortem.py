"""Why a role ended: its rank, the cause in one line, and where to read on."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from dance.paths import Role, RunPaths
from dance.stopping import STOPPED

from .plan import RolePlan

_LINES = 15
_TAIL_BYTES = 1 << 18
# torchrun's report: one block per rank that ended other than by 0, the first failure seen comes last.
_BLOCK = re.compile(r"rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: (-?\d+)")
_ENDING = re.compile(r"Sending process \d+ closing signal")  # torchrun, as soon as a rank has failed
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL) (.+)")
_SIGNALLED = re.compile(r"SignalException: Process \d+ got signal: 15")  # torchrun, before it had ranks
# What a healthy rank says when another one has gone.
_SECOND_HAND = re.compile(r"[Cc]onnection (closed|reset) by peer|Broken pipe|DistBackendError|DistNetworkError")


@dataclass(frozen=True)
class Failure:
    """What a person needs to go on."""

    role: Role
    rank: int | None  # None: torchrun itself
    cause: str
    log: Path
    lines: tuple[str, ...]

    def __str__(self) -> str:
        who = self.role if self.rank is None else f"{self.role} rank {self.rank}"
        tail = "\n".join(f"    {line}" for line in self.lines) or "    (nothing was logged)"
        return f"{who} failed: {self.cause}\n  log: {self.log}, its last lines:\n{tail}"


def examine(plan: RolePlan, code: int, paths: RunPaths) -> Failure:
    """From the exit code of torchrun and what it and the ranks wrote."""
    output = tail(plan.output)
    ranks = exit_codes(output)
    if not ranks:
        log = plan.output
        return Failure(plan.role, None, _cause(code, output), log, tuple(output[-_LINES:]))
    rank, rank_code = _first(ranks, plan.role, output)
    own = of_rank(output, plan.role, rank)
    log = paths.log(plan.role, rank)
    written = tail(log)
    if not written or any(line.startswith("Traceback") for line in own):
        log, written = (log if log.is_file() else plan.output), own
    return Failure(plan.role, rank, _cause(rank_code, own), log, tuple(written[-_LINES:]))


def ends_its_ranks(plan: RolePlan) -> bool:
    """Whether torchrun has seen a rank fail and is ending the others; it names the failed one only afterwards."""
    return any(_ENDING.search(line) for line in tail(plan.output))


def clean_stop(plan: RolePlan, code: int) -> bool:
    """Whether all of a role ended because it was asked to: cleanly, or too early to have begun anything."""
    asked = (0, STOPPED, -signal.SIGTERM)
    if code in asked:
        return True
    output = tail(plan.output)
    ranks = exit_codes(output)
    if not ranks:
        return any(_SIGNALLED.search(line) for line in output)
    return all(rank_code in asked for _, rank_code in ranks)


def exit_codes(output: list[str]) -> list[tuple[int, int]]:
    """(rank, exit code) of torchrun's last report, its root cause first; [] where there is none."""
    text = "\n".join(output)
    report = text[text.rfind(" FAILED\n") :] if " FAILED\n" in text else ""
    return [(int(rank), int(code)) for rank, code in _BLOCK.findall(report)][::-1]


def of_rank(output: list[str], role: Role, rank: int) -> list[str]:
    """The lines that one rank wrote, without torchrun's prefix and torch's own in tracebacks."""
    prefix, inner = f"[{role}{rank}]:", f"[rank{rank}]: "
    return [line.removeprefix(prefix).removeprefix(inner) for line in output if line.startswith(prefix)]


def tail(path: Path) -> list[str]:
    """The lines at the end of a file that may be long; [] where there is none."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()


def _first(ranks: list[tuple[int, int]], role: Role, output: list[str]) -> tuple[int, int]:
    """A death by signal explains exceptions elsewhere; an exception of its own explains lost connections.

    An abort is a watchdog's, as a rule, or follows an exception. torchrun's clock has whole seconds, so that
    its root cause is a guess between neighbours.
    """

    def order(entry: tuple[int, int]) -> int:
        rank, code = entry
        if code in (-signal.SIGTERM, STOPPED):  # torchrun's or the launcher's doing
            return 4
        own = of_rank(output, role, rank)
        if code == -signal.SIGABRT and not _raised(own):
            return 2
        if code < 0 and code != -signal.SIGABRT:
            return 0
        return 3 if _SECOND_HAND.search(_exception(own)) else 1

    return min(ranks, key=order)


def _cause(code: int, lines: list[str]) -> str:
    if code == -signal.SIGABRT and _raised(lines):  # gloo's threads abort where the interpreter ends under them
        return f"{_raised(lines)} (then killed by SIGABRT)"
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (from outside: often the kernel, when memory runs out)" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"
    if code == STOPPED:
        return "it was asked to end from outside (SIGTERM)"
    return _exception(lines) or f"exit code {code}"


def _exception(lines: list[str]) -> str:
    """The exception of the last traceback, or the last error that was logged; "" where there is neither."""
    logged = [match.group(1) for line in lines if (match := _LOGGED.search(line))]
    return _raised(lines) or (logged[-1] if logged else "")


def _raised(lines: list[str]) -> str:
    """The exception of the last traceback; "" where there is none."""
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    after = lines[starts[-1] + 1 :] if starts else []
    return next((line for line in after if line and not line[0].isspace()), "")
