"""Puts what a playbook borrows in its place, so that whoever runs it sees whole commands."""

from difflib import get_close_matches
from typing import TypeVar

from msgspec.structs import replace

from hermes.skills.format.shared import Shelf
from hermes.skills.playbook.schema import Check, Playbook, Probe, Step

Finding = tuple[tuple[str | int, ...], str, bool]
Place = tuple[str | int, ...]
P = TypeVar("P", Probe, Check, Step)


def with_borrowed(playbook: Playbook, shelf: Shelf) -> tuple[Playbook, list[Finding]]:
    """Whole commands, and what could not be found."""
    found: list[Finding] = []
    probes = [
        _whole(probe, ("signature", "probes", number), shelf, found)
        for number, probe in enumerate(playbook.signature.probes)
    ]
    steps = [_whole(step, ("steps", n), shelf, found) for n, step in enumerate(playbook.steps)]
    checks = [_whole(each, ("verify", n), shelf, found) for n, each in enumerate(playbook.verify)]
    whole = replace(
        playbook,
        signature=replace(playbook.signature, probes=tuple(probes)),
        steps=tuple(steps),
        verify=tuple(checks),
    )
    return whole, found


def _whole(part: P, place: Place, shelf: Shelf, found: list[Finding]) -> P:
    use: str = getattr(part, "use", "")  # steps are always written out
    if use and part.command:
        found.append(((*place, "use"), "it has a command of its own: leave out one of them", True))
    for key in ("name", "command") if not use else ():
        if not getattr(part, key):
            found.append((place, f"{key} is missing, or `use` of a shared one", True))
    command = _text(use, (*place, "use"), shelf, found) if use else part.command
    before: list[str] = [_text(name, (*place, "with"), shelf, found) for name in part.shared]
    whole = "\n".join(text.rstrip("\n") for text in [*before, command])
    # Written down again it is whole by itself, and borrows nothing.
    own = {"use": ""} if use else {}
    return replace(part, name=part.name or use, command=whole, shared=(), **own)


def _text(name: str, place: Place, shelf: Shelf, found: list[Finding]) -> str:
    text = shelf.text(name)
    if text is None:
        near = get_close_matches(name, shelf.names, n=1)
        known = ", ".join(shelf.names) or "none"
        hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
        found.append((place, f"there is no shared {name!r} in _probes; {hint}", True))
    return text or ""
