"""A snapshot as a person sees it: a panel for terminals, a line for logs. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dance.progress import Progress

from .snapshot import Snapshot

_QUIET_SECONDS = 60.0  # without a sign of a role, its age is shown
_METRICS = (("NDCG@10", "ndcg@10"), ("MRR@10", "mrr@10"), ("Recall@100", "recall@100"))
_OTHERS = (  # not of every text
    ("d2q NDCG@10", "d2q_ndcg@10"),
    ("Coverage@20", "coverage@20"),
    ("Coverage@100", "coverage@100"),
)
SAMPLE = "sample_"  # prefix of metrics over a sample of the corpus, never comparable with full ones
REPORT = "report_"  # prefix of metrics over the half of the held-out queries that does not choose the encoder


def metrics(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and key of what is shown of these records."""
    return [*_METRICS, *(pair for pair in _OTHERS if any(measured(record, pair[1]) is not None for record in records))]


def measured(record: Mapping[str, Any], key: str) -> float | None:
    """Over the reporting half where the held-out queries are split, over all of them elsewhere."""
    found: float | None = record.get(REPORT + key, record.get(key))
    return found


def scored(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that tell how good an encoder is over the full corpus; some refreshes only mine."""
    keys = [key for _, key in (*_METRICS, *_OTHERS)]
    return [record for record in records if any(measured(record, key) is not None for key in keys)]


def apart(record: Mapping[str, Any]) -> bool:
    """Whether it is of an evaluation by itself, which is not part of a refresh."""
    return "evaluate_seconds" in record and "refresh_seconds" not in record


def panel(seen: Snapshot, title: str, bm25: float | None, width: int | None = None) -> RenderableType:
    """Both roles with a bar and their figures, and the held-out metric so far. Fits any width."""
    parts: list[RenderableType] = []
    for name, role, facts in (
        ("Trainer", seen.trainer, _trainer_facts(seen)),
        ("Inferencer", seen.inferencer, _inferencer_facts(seen)),
    ):
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(width=10, no_wrap=True, style="bold")
        grid.add_column(width=9, no_wrap=True)
        grid.add_column(width=16)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        grid.add_row(name, Text(_phase(role), style=_style(role)), _bar(seen, role), _amount(seen, role))
        parts += [grid, Padding(_line(facts, style="dim"), (0, 0, 0, 12)), ""]
    parts.append(_line(dev_line(seen, bm25)))
    return Panel(Group(*parts), title=title, title_align="left", border_style="blue", width=width)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, overflow="ellipsis", no_wrap=True)


def one_line(seen: Snapshot) -> str:
    """Both roles, for logs."""
    parts = []
    for name, role, facts in (
        ("trainer", seen.trainer, _trainer_facts(seen)),
        ("inferencer", seen.inferencer, _inferencer_facts(seen)),
    ):
        told = [f"{_phase(role)} {_amount(seen, role)}".strip(), facts]
        parts.append(f"{name}: {', '.join(part for part in told if part)}")
    return " | ".join(parts)


def refresh_line(record: Mapping[str, Any]) -> str:
    """One refresh, or evaluation apart from it, that has ended."""
    times = [
        f"{name} {record[key]:.1f} s"
        for name, key in (
            ("encode", "encode_seconds"),
            ("search", "search_seconds"),
            ("mine", "mine_seconds"),
            ("evaluate", "evaluate_seconds"),
        )
        if key in record
    ]
    known = [(name, measured(record, key)) for name, key in metrics([record])]
    known += [(f"{name} on a sample", record.get(f"{SAMPLE}{key}")) for name, key in _METRICS]
    told = ", ".join(f"{name} {value:.3f}" for name, value in known if value is not None)
    what = "evaluation" if apart(record) else "refresh"
    return f"{what} of step {record['step']}: {told or 'mined'} ({', '.join(times)})"


def dev_line(seen: Snapshot, bm25: float | None) -> str:
    """NDCG@10 of the first refresh, the latest ones, and BM25."""
    known = ((record["step"], measured(record, "ndcg@10")) for record in seen.refreshes)
    scored = [(step, found) for step, found in known if found is not None]
    shown = scored if len(scored) <= 6 else [scored[0], *scored[-5:]]
    values = "  ".join(f"{step}: {found:.3f}" for step, found in shown) or "not yet"
    against = f"   (BM25 {bm25:.3f})" if bm25 is not None else ""
    return f"held-out NDCG@10 by step   {values}{against}"


def clock(seconds: float) -> str:
    """1:05, or 2:03:04, or 3 d 04 h."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24:02} h"
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _phase(role: Progress | None) -> str:
    return role.phase if role else "starting"


def _style(role: Progress | None) -> str:
    waiting = role is None or role.phase in ("wait", "start")
    return "red" if role and role.phase == "failed" else "yellow" if waiting else "green"


def _bar(seen: Snapshot, role: Progress | None) -> RenderableType:
    done, total = _done(seen, role)
    return ProgressBar(total=total, completed=min(done, total), width=16) if total else ""


def _done(seen: Snapshot, role: Progress | None) -> tuple[int, int]:
    """The Trainer is always shown on its way to the last step, whatever it does right now."""
    if role is None:
        return 0, 0
    if role.role == "trainer" and role.total_steps:
        return role.step or 0, role.total_steps
    return role.done, role.total


def _amount(seen: Snapshot, role: Progress | None) -> str:
    done, total = _done(seen, role)
    if role is None or not total:
        return _message(role)
    unit = "steps" if role.role == "trainer" else role.unit
    left = _seconds_left(seen, role)
    return f"{done:,}/{total:,} {unit}" + (f", {clock(left)} left" if left is not None else "") + _age(seen, role)


def _message(role: Progress | None) -> str:
    return role.message if role else ""


def _seconds_left(seen: Snapshot, role: Progress) -> float | None:
    done, total = _done(seen, role)
    if role.phase in ("finished", "stopped", "failed") or done >= total:
        return None
    if role.role == "trainer":
        return (total - done) * seen.seconds_per_step if seen.seconds_per_step is not None else None
    return role.seconds_left


def _age(seen: Snapshot, role: Progress) -> str:
    age = seen.now - role.updated_at
    ended = role.phase in ("finished", "stopped", "failed")
    return f", no sign for {clock(age)}" if age > _QUIET_SECONDS and not ended else ""


def _trainer_facts(seen: Snapshot) -> str:
    role = seen.trainer
    if role is None:
        return ""
    facts = [role.message] if role.message else []
    if role.loss is not None:
        facts.append(f"loss {role.loss:.4f}")
    if role.examples_per_second is not None:
        facts.append(f"{role.examples_per_second:,.0f} examples/s")
    if role.negatives_step is not None:
        facts.append(f"negatives of step {role.negatives_step}, {role.staleness or 0} steps old")
    elif role.loss is not None:
        facts.append("no negatives yet")
    return ", ".join(facts)


def _inferencer_facts(seen: Snapshot) -> str:
    role = seen.inferencer
    if role is None:
        return ""
    facts = [f"encoder of step {role.step}"] if role.step is not None else []
    if role.phase == "encode" and role.per_second:
        facts.append(f"{role.per_second:,.0f} documents/s")
    elif seen.refreshes and "documents_per_second" in seen.refreshes[-1]:
        facts.append(f"last refresh {seen.refreshes[-1]['documents_per_second']:,.0f} documents/s")
    return ", ".join(facts)
