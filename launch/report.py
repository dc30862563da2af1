"""The end of a run: metrics by refresh beside BM25, where the encoder lies, three queries before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
from rich.table import Table

from dance import tracking
from dance.config import Config
from dance.paths import RunPaths, newest, step_name

from . import terminal
from .picture import REPORT, apart, clock, measured, metrics, scored

if TYPE_CHECKING:
    from dance.corpus.collection import Collection

_QUERIES = 3
_TOP = 3
_ROWS = 16  # refreshes in the table at most
_WIDTH = 100  # characters of a line of text


def report(
    config: Config, paths: RunPaths, bm25: Mapping[str, float] | None, seconds: float, brief: bool = False
) -> None:
    """To stdout. Nothing is shown of what does not exist; ``brief`` shows figures alone."""
    records = tracking.read_lines(paths.metrics("inferencer"))
    best = best_step(paths)
    if full := scored(records):
        terminal.show(table(full, best, bm25))
    for line in summary(paths, records, seconds):
        terminal.show(line)
    if brief:
        return
    for line in encoder_lines(paths, best):
        terminal.show(line)
    if config.prepared is not None:
        from dance.corpus.collection import Collection

        collection = Collection.open(Path(config.prepared).parent / "text")
        for line in collection.told(config.data.dev_split):
            terminal.show(line)
        for line in examples(paths, collection, config.data.dev_split):
            terminal.show(line)


def table(records: Sequence[Mapping[str, Any]], best: int | None, bm25: Mapping[str, float] | None) -> Table:
    """One row per scored encoder: the first, the best, the last, and what fits between."""
    columns = metrics(records)
    half = " (the reporting half)" if any(key.startswith(REPORT) for key in records[-1]) else ""
    shown = Table(title=f"held-out queries{half} over the full corpus", title_justify="left")
    shown.add_column("encoder", no_wrap=True)
    for name, _ in columns:
        shown.add_column(name, justify="right")
    for record in _thinned(records, best):
        step = record["step"]
        notes = ["before training"] * (step == 0) + ["best"] * (step == best)
        note = f" ({', '.join(notes)})" if notes else ""
        style = "bold" if step == best else None
        shown.add_row(f"step {step}{note}", *_values(record, columns), style=style)
    if bm25 is not None:
        shown.add_section()
        shown.add_row("BM25", *_values(bm25, columns))
    return shown


def summary(paths: RunPaths, records: Sequence[Mapping[str, Any]], seconds: float) -> list[str]:
    """On the asynchronous loop: what was adopted and how old it was, and what that cost the Trainer."""
    adopted = tracking.read_lines(paths.journal)
    trained = tracking.read_lines(paths.metrics("trainer"))
    refreshes = sum(not apart(record) for record in records)
    old = [record["staleness"] for record in trained if "staleness" in record]
    age = f", {median(old):.0f} steps old at the median" if old else ""
    lines = [f"{clock(seconds)} in all, {refreshes} refreshes, negatives adopted {len(adopted)} times{age}"]
    if wall := _spent(trained, "seconds"):
        held = _spent(trained, "wait_seconds", "adopt_seconds") / wall
        handed = _spent(trained, "handover_seconds") / wall
        lines.append(
            f"of the Trainer's time: {held:.1%} waiting for and adopting them, {handed:.1%} handing encoders over"
        )
    return lines


def _spent(records: Sequence[Mapping[str, Any]], *keys: str) -> float:
    return sum(record.get(key, 0.0) for record in records for key in keys)


def best_step(paths: RunPaths) -> int | None:
    if not paths.best.is_file():
        return None
    return int(msgspec.json.decode(paths.best.read_bytes())["step"])


def encoder_lines(paths: RunPaths, best: int | None) -> list[str]:
    """The best encoder, or the newest where none was scored."""
    step = newest(paths.encoders) if best is None else best
    folder = None if step is None else paths.held("encoders", step)
    if folder is None:
        return []
    return [
        "",
        f"trained encoder (step {step}): {folder}",
        "  from dance.encoder.texts import TextEncoder    # or SentenceTransformer(FOLDER)",
        f"  encoder = TextEncoder.open({str(folder)!r})",
        "  scores = encoder.queries(['a question']) @ encoder.documents([('title', 'text')]).T",
    ]


def examples(paths: RunPaths, collection: Collection, split: str) -> list[str]:
    """Three held-out queries, evenly spread and not chosen by result, with their top 3 before and after."""
    # step_00000040-test is the evaluate verb's, of another split.
    refreshes = (path for path in paths.evaluation.glob("step_*") if path.name.removeprefix("step_").isdigit())
    runs = sorted(path / "run.trec" for path in refreshes if (path / "run.trec").is_file())
    best = best_step(paths)
    if best is not None and (chosen := paths.evaluation / step_name(best) / "run.trec") in runs[1:]:
        runs = [runs[0], chosen]
    if len(runs) < 2:
        return []
    before, after = tops(runs[0]), tops(runs[-1])
    asked = spread([query for query in after if query in before])
    documents = rows_of(collection.document_ids, {d for run in (before, after) for q in asked for d in run[q]})
    queries = rows_of(collection.query_ids, set(asked))
    lines = [
        "",
        f"three held-out queries, before ({runs[0].parent.name}) and after ({runs[-1].parent.name}); * is relevant",
    ]
    for query in asked:
        judged = split in collection.splits  # or answers alone are known
        relevant = set(collection.splits[split].relevant(queries[query]).tolist()) if judged else set()
        lines += ["", _short(collection.queries[queries[query]])]
        for name, run in (("before", before), ("after", after)):
            for rank, document in enumerate(run[query], start=1):
                row = documents[document]
                mark = "*" if row in relevant else " "
                lines.append(f"  {name:>6} {rank} {mark} {_short(_title(collection, row))}")
    return lines


def tops(run: Path) -> dict[str, list[str]]:
    """Query id -> ids of its first documents, from a TREC run file in rank order."""
    found: dict[str, list[str]] = {}
    with run.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            query, _, document, *_ = line.split()
            if len(kept := found.setdefault(query, [])) < _TOP:
                kept.append(document)
    return found


def spread(names: Sequence[str]) -> list[str]:
    count = min(_QUERIES, len(names))
    return [names[(2 * number + 1) * len(names) // (2 * count)] for number in range(count)]


def rows_of(names: Iterable[str], wanted: set[str]) -> dict[str, int]:
    """Rows of the wanted ids; run files write white space in ids escaped, so those are compared too."""
    from dance.evaluation.runfile import escaped

    return {key: row for row, name in enumerate(names) if (key := escaped(name)) in wanted}


def _title(collection: Collection, row: int) -> str:
    return collection.titles[row] or collection.texts[row]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _WIDTH else f"{flat[: _WIDTH - 1]}…"


def _values(record: Mapping[str, Any], columns: Sequence[tuple[str, str]]) -> list[str]:
    return ["" if (found := measured(record, key)) is None else f"{found:.4f}" for _, key in columns]


def _thinned(records: Sequence[Mapping[str, Any]], best: int | None) -> list[Mapping[str, Any]]:
    if len(records) <= _ROWS:
        return list(records)
    last = len(records) - 1
    kept = {round(number * last / (_ROWS - 2)) for number in range(_ROWS - 1)}
    kept |= {number for number, record in enumerate(records) if record["step"] == best}
    return [records[number] for number in sorted(kept)]
