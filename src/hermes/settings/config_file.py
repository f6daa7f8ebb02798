"""What config.yaml gives, old layouts included. Loaded only when there is such a file."""

from pathlib import Path as File
from typing import Any

from hermes.settings.migrations import KEY, VERSION, Move, find, pending
from hermes.settings.origins import Given, Origin, Path, Problem, dotted
from hermes.settings.yaml_file import Document, read


def given_by(file: File, text: str) -> tuple[list[Given], list[Problem], list[str]]:
    document = read(file, text)
    if document.problems:
        return [], document.problems, []
    try:
        moves = pending(document.data)
    except ValueError as error:
        return [], [Problem(document.where((KEY,)), str(error))], []
    for move, old, new in moves:
        _move(document, move, old, new)
    document.data.pop(KEY, None)
    warnings = [f"{file}: {_outdated(moves)}"] if moves else []
    return list(_leaves(document, document.data, ())), [], warnings


def _outdated(moves: list[tuple[Move, Path, Path]]) -> str:
    names = ", ".join(f"{dotted(old)} is now {dotted(new)}" for _, old, new in moves)
    return f"older than version {VERSION} ({names}); `hermes config migrate` rewrites it"


def _move(document: Document, move: Move, old: Path, new: Path) -> None:
    """In memory only: the file is rewritten when its owner says so."""
    _, value = find(document.data, old)
    mark = document.marks.get(old)
    _remove(document.data, old)
    if find(document.data, new)[0]:
        return  # the new key was already set by hand, and says what counts
    tree = document.data
    for part in new[:-1]:
        tree = tree.setdefault(str(part), {})
    tree[str(new[-1])] = [value] if move.aslist and not isinstance(value, list) else value
    if mark is not None:
        document.marks[new] = mark


def _remove(tree: dict[str, Any], path: Path) -> None:
    """A section that is left empty goes as well: it may be one that no longer exists."""
    if len(path) > 1:
        section = tree[str(path[0])]
        _remove(section, path[1:])
        if section:
            return
    del tree[str(path[0])]


def _leaves(document: Document, tree: dict[str, Any], above: Path) -> list[Given]:
    """A key with nothing behind it (all its lines commented out) sets nothing."""
    given: list[Given] = []
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict) and value:
            given += _leaves(document, value, path)
        elif value is not None:
            places = tuple(document.where(path[:end]) for end in range(1, len(path) + 1))
            given.append(Given(path, value, Origin("config file", places[-1]), places=places))
    return given
