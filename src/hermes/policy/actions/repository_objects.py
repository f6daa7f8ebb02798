"""Finds out what the numbers and names that a command gives to git stand for.

`git show` prints a file that is given by its number whatever its name was; a name that is no
branch of this repository stands for a commit of others.
"""

import os
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from mmap import ACCESS_READ, mmap

from msgspec.structs import replace

from hermes.policy.actions.action_effects import ActionStep
from hermes.policy.actions.confinement_profile import git_verb
from hermes.policy.actions.repository_programs import find_repository_records, find_work_tree
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.paths import PathClassifier
from hermes.policy.programs.git import (
    find_commit_words,
    find_source,
    find_start_points,
    is_commit_of_others,
)

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


def _find_printed_file(step: ActionStep, folders: Sequence[str]) -> str:
    """The first number among the words of git that is not known to be a commit; or empty."""
    verb = git_verb(step)
    if not _runs_git(step) or verb not in _PRINTING_VERBS:
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


def mark_printed_file(step: ActionStep, folders: Sequence[str]) -> ActionStep:
    """A number that is not known to be that of a commit may be that of a secret file, and a search
    in commits tells what is in one, letter by letter."""
    if number := _find_printed_file(step, folders):
        why = f"{number} is no commit; git prints a file by its number, also a secret"
    elif _searches_commits(step, folders) and any(
        _tracks_secrets(records)
        for folder in folders
        for records in find_repository_records(folder)[:1]
    ):
        why = "it finds words in secret files of this repository; -I or -G leaves them out"
    else:
        return step
    return replace(
        step, effects=step.effects | {"secret-read"}, why=(*step.why, f"secret-read: {why}")
    )


_PICKAXE_VERBS = word_set(
    "log show diff rev-list whatchanged diff-tree diff-index diff-files shortlog reflog stash"
)
_GREP_VALUE_OPTION = re.compile(r"-[a-zA-Z]*[ABCmef]\Z|--(?:max-depth|threads|max-count)\Z")
_GREP_PATTERN_OPTION = re.compile(r"-[a-zA-Z]*[ef]")
_GREP_TEXT_ONLY = re.compile(r"-[a-zA-Z]*I")
_MAX_TRACKED_FILES = 20_000


def _searches_commits(step: ActionStep, folders: Sequence[str]) -> bool:
    """Return whether git searches the content of committed files, also of those that it takes as
    binary.

    Files of the work tree are opened by their names, and so checked by the supervisor."""
    words = _words_after_verb(step) if _runs_git(step) else ()
    verb = git_verb(step) if words else ""
    options = words[: words.index("--")] if "--" in words else words
    if verb in _PICKAXE_VERBS:
        return any(word.startswith("-S") for word in options)
    if verb != "grep" or any(map(_GREP_TEXT_ONLY.match, options)):
        return False
    plain = [
        word
        for before, word in pairwise(("", *options))
        if not word.startswith("-") and not _GREP_VALUE_OPTION.match(before)
    ]
    searched = plain if any(map(_GREP_PATTERN_OPTION.match, options)) else plain[1:]
    return (
        "--cached" in options
        or any(
            not os.path.lexists(os.path.join(folder, word))  # noqa: PTH118
            for folder in folders[:1]
            for word in searched
        )
    )


def _tracks_secrets(records: str) -> bool:
    """Return whether a file in the index is a secret by its name; without an index, any may be
    there."""
    try:
        with open(f"{records}/index", "rb") as file:  # noqa: PTH123
            names = list(islice(_names_in_index(file.read()), _MAX_TRACKED_FILES))
    except (OSError, ValueError, IndexError):
        return True
    known = PathClassifier("/nowhere")
    return len(names) == _MAX_TRACKED_FILES or any(known.is_secret(f"/{name}") for name in names)


_ENTRY_BYTES, _EXTENDED_FLAG = 62, 0x40
"""Bytes of an entry of the index before its name, and the bit that says that there are two more."""


def _names_in_index(data: bytes) -> Iterator[str]:
    """In version 4 a name begins with a part of the one before."""
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index of git")
    at, name = 12, b""
    for _ in range(count):
        start = at
        at += _ENTRY_BYTES + (2 if data[at + _ENTRY_BYTES - 2] & _EXTENDED_FLAG else 0)
        if version == 4:
            dropped = data[at] & 0x7F
            while data[at] & 0x80:
                at += 1
                dropped = ((dropped + 1) << 7) | (data[at] & 0x7F)
            end = data.index(0, at + 1)
            name = name[: len(name) - dropped] + data[at + 1 : end]
            at = end + 1
        else:
            end = data.index(0, at)
            name = data[at:end]
            at = start + (end - start) // 8 * 8 + 8
        yield name.decode(errors="replace")


_START_VERBS = word_set("switch branch worktree")
_FOREIGN_VERBS = word_set("pull submodule am apply")
"""Verbs that bring files of others whatever their words are."""
_CONTENT_VERBS = word_set("checkout switch merge rebase cherry-pick reset read-tree worktree")
"""Verbs that put files of the commits into the work tree that their words name."""
_BRANCH_SUFFIX = re.compile(r"(?:[~^]\d*)+\Z")


def mark_foreign_names(
    steps: Sequence[ActionStep], folders_of: Callable[[ActionStep], Sequence[str]]
) -> tuple[ActionStep, ...]:
    """Marks steps of git that start from a name which is no branch of the repository.

    `git switch NAME` makes a branch out of one of a remote, and tags come with each fetch.
    """
    made: set[str] = set()
    marked = []
    for step in steps:
        if _runs_git(step) and git_verb(step) in _START_VERBS and "write" in step.effects:
            rest = _words_after_verb(step)
            starts = find_start_points(git_verb(step), rest)
            branches = _find_branches(folders_of(step))
            for name in starts if branches is not None else ():
                if not _is_own_name(name, branches or set(), made):
                    why = f"privilege: {name} is no branch here and may bring files of others"
                    effects = step.effects | {"privilege"}
                    step = replace(step, effects=effects, why=(*step.why, why))
            made.update(word for word in rest if word not in starts)
        marked.append(step)
    return tuple(marked)


def trees_of_others(
    steps: Iterable[ActionStep], folders_of: Callable[[ActionStep], Sequence[str]] | None
) -> Iterator[str]:
    """Work trees into which git puts files of others; `folders_of` is None for another host."""
    for step in steps:
        if _runs_git(step) and _brings_files_of_others(step, folders_of):
            for folder in step.repositories:
                yield (find_work_tree(folder) if folders_of else "") or folder


def _brings_files_of_others(
    step: ActionStep, folders_of: Callable[[ActionStep], Sequence[str]] | None
) -> bool:
    verb, rest = git_verb(step), _words_after_verb(step)
    if verb in _FOREIGN_VERBS:
        return True
    if verb == "restore":
        names = find_source(rest)
    elif verb in _CONTENT_VERBS:
        names = find_commit_words(verb, rest)
    else:
        return False
    if any(map(is_commit_of_others, names)):
        return True
    folders = folders_of(step) if folders_of else ()
    branches = _find_branches(folders)
    return branches is not None and any(
        not _is_own_name(name, branches, ())
        and not any(os.path.lexists(os.path.join(each, name)) for each in folders)  # noqa: PTH118
        for name in names
    )


def _runs_git(step: ActionStep) -> bool:
    return os.path.basename(step.program) == "git"  # noqa: PTH119


def _words_after_verb(step: ActionStep) -> tuple[str, ...]:
    verb = git_verb(step)
    return step.argv[step.argv.index(verb) + 1 :] if verb else ()


def _is_own_name(name: str, branches: Container[str], made: Container[str]) -> bool:
    branch = _BRANCH_SUFFIX.sub("", name.removeprefix("refs/").removeprefix("heads/"))
    return branch in branches or branch in made


def _find_branches(folders: Iterable[str]) -> set[str] | None:
    """The branches of the repositories around these folders; None where there is none."""
    places = {place for folder in folders for place in find_repository_records(folder)}
    found: set[str] = set()
    for place in places:
        heads = f"{place}/refs/heads"
        for folder, _, names in os.walk(heads):
            found.update(os.path.relpath(f"{folder}/{name}", heads) for name in names)
        try:
            with open(f"{place}/packed-refs", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                lines = (line.rstrip("\n").partition(" refs/heads/")[2] for line in file)
                found.update(filter(None, lines))
        except OSError:
            pass
    return found if places else None


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
