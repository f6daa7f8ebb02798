"""Lists the compiled Python skills that an agent can call, without reading their code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically
from hermes.skills.discovery import PYTHON_SKILLS_FILE


class RegisteredSkill(Value, kw_only=True, frozen=True):
    skill: str
    function: str
    digest: str
    """Of the folder when it was compiled; a changed folder is not run."""
    description: str
    parameters: dict[str, Any] = {}
    modules: tuple[str, ...] = ()
    """Folders of installed modules."""
    task: str = ""
    """The task, to recognise a repeated request."""


def read_registry(root: Path) -> list[RegisteredSkill]:
    """Raises `SettingsError` when the file cannot be read."""
    try:
        data = (root / PYTHON_SKILLS_FILE).read_bytes()
    except OSError:
        return []
    try:
        return msgspec.json.decode(data, type=list[RegisteredSkill])
    except ValueError as error:
        raise SettingsError(
            f"{root / PYTHON_SKILLS_FILE} cannot be read: {error}; "
            "delete it and compile the skills again"
        ) from error


def register_skill(root: Path, registered: RegisteredSkill) -> None:
    """Atomic; a skill of the same name is replaced."""
    others = [each for each in read_registry(root) if each.skill != registered.skill]
    _write_registry(root, [*others, registered])


def unregister_skill(root: Path, skill: str) -> None:
    known = read_registry(root)
    remaining = [each for each in known if each.skill != skill]
    if len(remaining) != len(known):
        _write_registry(root, remaining)


def _write_registry(root: Path, entries: Sequence[RegisteredSkill]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode(sorted(entries, key=lambda each: each.skill))
    write_atomically(root / PYTHON_SKILLS_FILE, data)
