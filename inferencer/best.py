"""The encoder with the best held-out metric so far, as ``best.json`` keeps it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dance import artefact
from dance.evaluation.held_out import selected_by

log = logging.getLogger(__name__)


@dataclass
class Best:
    path: Path
    active: bool  # at rank 0

    @property
    def step(self) -> int | None:
        found = self._read()
        return None if found is None else found["step"]

    def note(self, record: dict[str, Any]) -> None:
        """A record that was not scored over the whole corpus says nothing."""
        key, best = selected_by(record), self._read()
        if not self.active or key is None:
            return
        if best is None or record[key] > best[key]:
            kept = {name: record[name] for name in ("step", "ndcg@10", key) if name in record}
            try:
                artefact.replace_file(self.path, msgspec.json.encode(kept))
            except OSError as error:  # its record says it too, to whoever goes on from here
                log.warning("step %d is the best so far, which could not be written: %s", record["step"], error)

    def recall(self, records: list[dict[str, Any]], newest: int) -> None:
        """Begin again with the records of what is not forgotten, up to step ``newest``.

        What was the best until then stays it: its record may be the one that a full disk cost.
        """
        best = self.step
        if best is not None and best > newest:
            self.path.unlink()
        for record in records:
            self.note(record)

    def _read(self) -> dict[str, Any] | None:
        return msgspec.json.decode(self.path.read_bytes()) if self.path.is_file() else None
