"""The encoder with the best held-out metric so far, as ``best.json`` keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dance import artefact
from dance.evaluation.held_out import selected_by


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
            artefact.replace_file(self.path, msgspec.json.encode(kept))

    def recall(self, records: list[dict[str, Any]]) -> None:
        """Begin again with the records of what is not forgotten."""
        self.path.unlink(missing_ok=True)
        for record in records:
            self.note(record)

    def _read(self) -> dict[str, Any] | None:
        return msgspec.json.decode(self.path.read_bytes()) if self.path.is_file() else None
