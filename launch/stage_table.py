"""What the stages of a run gained, in one table: both directions of retrieval, before and after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from dance import tracking
from dance.config import Config
from dance.paths import RunPaths, newest, step_name

from . import terminal
from .picture import REPORT, measured, scored
from .report import best_step

_COLUMNS = (("q2d NDCG@10", "ndcg@10"), ("d2q NDCG@10", "d2q_ndcg@10"))


class Line(msgspec.Struct, frozen=True):
    """One stage."""

    name: str
    step: int | None  # of the encoder that it hands on
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    encoder: Path | None


def line(name: str, paths: RunPaths, config: Config) -> Line:
    """From what the Inferencer recorded: the first that was scored, and that of the encoder that is handed on."""
    records = scored(tracking.read_lines(paths.metrics("inferencer")))
    static = config.schedule == "static"
    step = newest(paths.encoders) if static else best_step(paths)
    after = _scored_last(paths, config, step) if static else _of(records, step)
    encoder = None if step is None else paths.held("encoders", step)
    return Line(name, step, records[0] if records else {}, after, encoder)


def show(lines: Sequence[Line], bm25: Mapping[str, float] | None) -> None:
    terminal.show("")
    terminal.show(table(lines, bm25))
    for each in lines:
        if each.encoder is not None:
            terminal.show(f"{each.name}: {each.encoder}")


def table(lines: Sequence[Line], bm25: Mapping[str, float] | None) -> Table:
    """A column per direction that was measured, "before -> after" in each."""
    seen = [record for each in lines for record in (each.before, each.after)]
    half = " (the reporting half)" if any(key.startswith(REPORT) for record in seen for key in record) else ""
    shown = Table(title=f"the stages: held-out queries{half} over the full corpus", title_justify="left")
    shown.add_column("stage", no_wrap=True)
    shown.add_column("encoder", no_wrap=True)
    columns = [(name, key) for name, key in _COLUMNS if any(value(record, key) for record in seen)]
    for name, _ in columns:
        for when in ("before", "after"):
            shown.add_column(f"{name} {when}", justify="right")
    for each in lines:
        step = "" if each.step is None else f"step {each.step}"
        values = [value(record, key) for _, key in columns for record in (each.before, each.after)]
        shown.add_row(each.name, step, *values)
    if bm25 is not None:
        shown.add_section()
        shown.add_row("BM25", "", *(text for _, key in columns for text in ("", value(bm25, key))))
    return shown


def value(record: Mapping[str, Any], key: str) -> str:
    found = measured(record, key)
    return "" if found is None else f"{found:.4f}"


def _of(records: Sequence[Mapping[str, Any]], step: int | None) -> Mapping[str, Any]:
    return next((record for record in reversed(records) if record["step"] == step), {})


def _scored_last(paths: RunPaths, config: Config, step: int | None) -> Mapping[str, Any]:
    """Under schedule=static the launcher scores the last encoder itself."""
    path = paths.evaluation / f"{step_name(step or 0)}-{config.data.dev_split}" / "metrics.json"
    return msgspec.json.decode(path.read_bytes()) if path.is_file() else {}
