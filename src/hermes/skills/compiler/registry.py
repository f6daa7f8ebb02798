"""Python skills that have been compiled: what an agent can call, known without reading any code."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

REGISTRY_FILE = ".python.json"


class RegisteredSkill(Value, kw_only=True, frozen=True):
    skill: str
    function: str
    digest: str
    """Of the folder as it was proven; another content is not run."""
    description: str
    parameters: dict[str, Any] = {}
    modules: tuple[str, ...] = ()
    """Folders of installed modules."""
    task: str = ""
    """What was asked for, to know it again."""


def read_registry(root: Path) -> list[RegisteredSkill]:
    """Raises `SettingsError` when the index was damaged by hand."""
    try:
        data = (root / REGISTRY_FILE).read_bytes()
    except OSError:
        return []
    try:
        return msgspec.json.decode(data, type=list[RegisteredSkill])
    except ValueError as error:
        raise SettingsError(
            f"{root / REGISTRY_FILE} cannot be read: {error}; delete it and compile the skills again"
        ) from error


def register_skill(root: Path, made: RegisteredSkill) -> None:
    """In one step; a skill of the same name is replaced."""
    others = [each for each in read_registry(root) if each.skill != made.skill]
    _write_registry(root, [*others, made])


def unregister_skill(root: Path, skill: str) -> None:
    """It is no tool any more."""
    known = read_registry(root)
    left = [each for each in known if each.skill != skill]
    if len(left) != len(known):
        _write_registry(root, left)


def _write_registry(root: Path, entries: Sequence[RegisteredSkill]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / f"{REGISTRY_FILE}.{os.getpid()}"
    try:
        fresh.write_bytes(msgspec.json.encode(sorted(entries, key=lambda each: each.skill)))
        fresh.replace(root / REGISTRY_FILE)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
