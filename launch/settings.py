"""`dance settings`: every key with its default, and what the schema says about it."""

from __future__ import annotations

import ast
import inspect

import msgspec
import yaml

from dance import config as schema
from dance import sections
from dance.config import Config

from . import terminal
from .compose import flat, stage_names
from .overrides import BATCHES, NEGATIVES, choices, experiments


def main() -> int:
    for key, (default, text) in described().items():
        terminal.show(f"{key}={_plain(default)}" + (f"\n    {text}" if text else ""))
    terminal.show(f"\nexperiment=NAME changes several at once: {', '.join(experiments())}")
    terminal.show(f"negatives=NAME says where negatives come from: {', '.join(choices(NEGATIVES))}")
    terminal.show(f"batches=NAME says how examples come together: {', '.join(choices(BATCHES))}")
    terminal.show("stages of an experiment: stages.NAME.KEY=VALUE is for one of them, stage=NAME runs it alone")
    for name in experiments():
        if found := stage_names(name):
            terminal.show(f"    {name}: {', '.join(found)}")
    return 0


def described() -> dict[str, tuple[object, str]]:
    """Dotted key -> (default, the comment above the field in dance.config)."""
    comments = _comments()
    found = {}
    for key, default in flat(msgspec.to_builtins(Config())).items():
        section, _, leaf = key.rpartition(".")
        found[key] = (default, comments.get((section.capitalize() or "Config", leaf), ""))
    return found


def _comments() -> dict[tuple[str, str], str]:
    """(class, field) -> the comment lines right above it, "" where there are none."""
    found: dict[tuple[str, str], str] = {}
    for module in (sections, schema):
        found |= _comments_in(inspect.getsource(module))
    return found


def _comments_in(source: str) -> dict[tuple[str, str], str]:
    lines = source.splitlines()
    found: dict[tuple[str, str], str] = {}
    for section in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        for field in (node for node in section.body if isinstance(node, ast.AnnAssign)):
            assert isinstance(field.target, ast.Name)
            found[section.name, field.target.id] = _above(lines, field.lineno - 1)
    return found


def _above(lines: list[str], number: int) -> str:
    taken: list[str] = []
    while number > 0 and lines[number - 1].lstrip().startswith("#"):
        number -= 1
        taken.insert(0, lines[number].lstrip(" #"))
    return " ".join(taken)


def _plain(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
