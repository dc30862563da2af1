"""KEY=VALUE arguments: every key known, every value of its kind, before Hydra sees them."""

from __future__ import annotations

import difflib
import functools
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dance.config import Config, Section

CONF = Path(__file__).resolve().parent.parent / "conf"
_EXPERIMENT = "experiment"


@functools.cache
def fields(section: type[Section] = Config, prefix: str = "") -> dict[str, Any]:
    """Type of every setting by its dotted key."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found |= fields(field.type, f"{prefix}{field.name}.")
        else:
            found[prefix + field.name] = field.type
    return found


def experiments() -> list[str]:
    return sorted(path.stem for path in (CONF / _EXPERIMENT).glob("*.yaml"))


def read_arguments(arguments: Iterable[str]) -> dict[str, str]:
    """{key: value as typed}; the last of equal keys wins. Raises ValueError that names the key meant."""
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise ValueError(f"{argument!r} is no setting: write KEY=VALUE{_meant(key)}")
        refuse_unknown(key)
        given[key] = value
    return given


def refuse_unknown(key: str) -> None:
    """Raises ValueError that names the nearest known key."""
    known = fields()
    if key in known or key == _EXPERIMENT:
        return
    if inside := [name for name in known if name.startswith(f"{key}.")]:
        raise ValueError(f"{key} is a group of settings; set one of them: {', '.join(inside)}")
    if key[:1] in "+~":
        raise ValueError(f"{key}: settings are changed by KEY=VALUE, none is added or removed")
    raise ValueError(f"no setting is called {key!r}{_meant(key)}")


def nearest(key: str) -> str | None:
    """The known key that was most likely meant, by its last name first, then by its whole spelling."""
    known = list(fields())
    leaf = key.rpartition(".")[2]
    for same in (name for name in known if name.rpartition(".")[2] == leaf):
        return same
    by_leaf = {name.rpartition(".")[2]: name for name in reversed(known)}
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    close = close or [by_leaf[name] for name in difflib.get_close_matches(leaf, by_leaf, n=1, cutoff=0.6)]
    return close[0] if close else None


def for_hydra(given: Mapping[str, str]) -> list[str]:
    """Overrides in Hydra's grammar, all but text. Raises ValueError for a truth value that is none."""
    known = fields()
    return [f"{key}={_literal(key, value, known.get(key))}" for key, value in given.items() if not _text(key)]


def texts(given: Mapping[str, str]) -> dict[str, str | None]:
    """Values of text settings, as typed: 1e3 is no number there, a comma or = in a path no syntax."""
    return {key: _unquoted(value) for key, value in given.items() if _text(key)}


def experiment(given: Mapping[str, str], default: str = "smoke") -> str:
    """Name of the experiment. Raises ValueError that lists those there are."""
    name = given.get(_EXPERIMENT, default)
    if name not in experiments():
        close = difflib.get_close_matches(name, experiments(), n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"experiment={name}: there are {', '.join(experiments())}{meant}")
    return name


def _meant(key: str) -> str:
    close = nearest(key)
    return f"; did you mean {close}?" if close else "; `dance settings` shows all of them"


def _kinds(kind: Any) -> tuple[Any, ...]:
    """(int, None) of Annotated[int, ...] | None."""
    if typing.get_origin(kind) is typing.Annotated:
        return (typing.get_args(kind)[0],)
    return tuple(part for each in typing.get_args(kind) for part in _kinds(each)) or (kind,)


def _text(key: str) -> bool:
    return str in _kinds(fields().get(key))


def _literal(key: str, value: str, kind: Any) -> str:
    kinds = _kinds(kind)
    if bool in kinds and value.lower() not in ("true", "false"):
        raise ValueError(f"{key}={value}: write {key}=true or {key}=false")
    if int in kinds and re.fullmatch(r"\d+(\.\d*)?[eE]\+?\d+", value) and float(value).is_integer():
        return str(int(float(value)))  # train.steps=1e6
    return value


def _unquoted(value: str) -> str | None:
    if value == "null":
        return None
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
