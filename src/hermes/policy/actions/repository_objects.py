"""Finds out whether a number that a command gives to git is that of a file.

`git show` prints a file that is given by its number whatever its name was.
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap

from hermes.policy.actions.action_effects import ActionStep
from hermes.policy.actions.confinement_profile import git_verb
from hermes.policy.actions.repository_programs import find_repository_records

_NUMBER = re.compile(r"(?:.*-g)?([0-9a-f]{4,40})(?:\^\{\w*\})?\Z", re.I)
"""A number, also abbreviated, or the end of a name as `git describe` makes it."""
_OBJECT_VERBS = frozenset({"show", "diff"})
"""Verbs with which a word of this form is hardly anything but a number."""
_PRINTING_VERBS = _OBJECT_VERBS | {"grep", "tag", "notes"}
"""Verbs that print a file by its number, or give it a name by which others print it."""
_FILE, _OFFSET_DELTA, _REFERENCE_DELTA = 3, 6, 7
_LOOSE_KINDS = {b"commit": 1, b"tree": 2, b"blob": _FILE, b"tag": 4}
_INDEX_HEADER = b"\377tOc\0\0\0\2"
_NAMES_START, _NAME_BYTES = 8 + 4 * 256, 20


def find_printed_file(step: ActionStep, folders: Sequence[str]) -> str:
    """The first number among the words of git that is not known to be a commit; or empty."""
    verb = git_verb(step)
    if os.path.basename(step.program) != "git" or verb not in _PRINTING_VERBS:  # noqa: PTH119
        return ""
    for number in filter(None, map(_NUMBER.match, step.argv[1:])):
        kinds = {
            kind
            for folder in folders
            for records in find_repository_records(folder)
            for kind in _kinds_of(f"{records}/objects", number[1].lower())
        }
        if _FILE in kinds or (not kinds and verb in _OBJECT_VERBS):
            return number[0]
    return ""


def _kinds_of(objects: str, number: str) -> Iterator[int]:
    """The kinds of the objects whose number begins like this."""
    try:
        for name in os.listdir(f"{objects}/{number[:2]}"):  # noqa: PTH208
            if name.startswith(number[2:]):
                with open(f"{objects}/{number[:2]}/{name}", "rb") as file:  # noqa: PTH123
                    begin = zlib.decompressobj().decompress(file.read(4096), 16)
                    yield _LOOSE_KINDS.get(begin.partition(b" ")[0], _FILE)
    except (OSError, zlib.error):
        pass
    try:
        packs = os.listdir(f"{objects}/pack")  # noqa: PTH208
    except OSError:
        return
    for pack in packs:
        if pack.endswith(".idx"):
            yield from _packed_kinds(f"{objects}/pack/{pack}", number)


def _packed_kinds(index: str, number: str) -> Iterator[int]:
    try:
        with (
            open(index, "rb") as names_file,  # noqa: PTH123
            open(f"{index[:-3]}pack", "rb") as pack_file,  # noqa: PTH123
            mmap(names_file.fileno(), 0, access=ACCESS_READ) as names,
            mmap(pack_file.fileno(), 0, access=ACCESS_READ) as pack,
        ):
            if names[:8] == _INDEX_HEADER:
                for offset in _offsets(names, number):
                    yield _kind_at(names, pack, offset)
    except (OSError, ValueError, IndexError):
        yield _FILE


def _offsets(names: mmap, number: str) -> Iterator[int]:
    """Where the objects begin in the pack."""
    total = _number_at(names, _NAMES_START - 4)
    first, end = bytes.fromhex(number + "0" * (40 - len(number))), total
    at = 0
    while at < end:  # binary search
        middle = (at + end) // 2
        if _name_at(names, middle) < first:
            at = middle + 1
        else:
            end = middle
    while at < total and _name_at(names, at).hex().startswith(number):
        offset = _number_at(names, _NAMES_START + (_NAME_BYTES + 4) * total + 4 * at)
        if offset & 0x80000000:
            large = _NAMES_START + (_NAME_BYTES + 8) * total + 8 * (offset & 0x7FFFFFFF)
            offset = int.from_bytes(names[large : large + 8], "big")
        yield offset
        at += 1


def _name_at(names: mmap, at: int) -> bytes:
    start = _NAMES_START + _NAME_BYTES * at
    return names[start : start + _NAME_BYTES]


def _number_at(names: mmap, start: int) -> int:
    return int.from_bytes(names[start : start + 4], "big")


def _kind_at(names: mmap, pack: mmap, offset: int) -> int:
    """The kind of an object; that of a difference is the kind of what it begins from."""
    while True:
        at = offset
        kind = (pack[at] >> 4) & 7
        while pack[at] & 0x80:  # the size
            at += 1
        at += 1
        if kind == _OFFSET_DELTA:
            back = pack[at] & 0x7F
            while pack[at] & 0x80:
                at += 1
                back = ((back + 1) << 7) | (pack[at] & 0x7F)
            offset -= back
        elif kind == _REFERENCE_DELTA:
            base = pack[at : at + _NAME_BYTES].hex()
            offset = next(_offsets(names, base), -1)
            if offset < 0:
                return _FILE
        else:
            return kind
