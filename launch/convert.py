"""The `convert` verb: public ANCE, DANCE and DPR checkpoints to encoders and back.

dance convert from=CHECKPOINT to=FOLDER layout=ance|dance|dpr [model.path=BASE] [model.chunks=4 model.chunking=raw]
              [model.document_template=spelt|joined]
dance convert from=ENCODER to=CHECKPOINT layout=... export=true
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from . import terminal

_OWN = ("from", "to", "layout", "export")
_MODEL = "model."


def main(arguments: Sequence[str]) -> int:
    """0 when written. Raises ValueError for bad input."""
    given = _read(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    settings = {key.removeprefix(_MODEL): value for key, value in given.items() if key.startswith(_MODEL)}
    source, to = (Path(given[key]).expanduser().resolve() for key in ("from", "to"))
    if given.get("export", "false") == "true":
        return _give_out(source, to, given["layout"], settings)
    return _take_in(source, to, given["layout"], settings)


def _read(arguments: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not (key in _OWN or key.startswith(_MODEL)):
            raise ValueError(f"{argument!r}: write {', '.join(f'{name}=' for name in _OWN)} or model.KEY=VALUE")
        given[key] = value
    absent = [f"{key}=" for key in ("from", "to", "layout") if not given.get(key)]
    if absent:
        raise ValueError(f"missing {', '.join(absent)}: dance convert from=CHECKPOINT to=FOLDER layout=ance|dance|dpr")
    if given.get("export", "false") not in ("true", "false"):
        raise ValueError(f"export={given['export']}: write export=true or export=false")
    return given


def _take_in(source: Path, to: Path, layout: str, settings: dict[str, str]) -> int:
    from dance.encoder import convert, outline

    encoder = convert.take_in(source, layout, settings, to)
    terminal.show(f"{to}: {encoder.settings.layers} layers, width {encoder.width}")
    terminal.show(f"train from it with  {outline.as_arguments(str(to), encoder.settings)}")
    return 0


def _give_out(source: Path, to: Path, layout: str, settings: dict[str, str]) -> int:
    from dance.encoder import convert

    if settings:
        raise ValueError(f"model.{next(iter(settings))} is the encoder's own: leave it out with export=true")
    convert.give_out(source, layout, to)
    terminal.show(f"{to}: layout={layout}")
    return 0
