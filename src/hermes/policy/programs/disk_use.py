"""Commands whose output has no end, or is very large, and goes into a file; or that start very many
processes."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from hermes.policy.commands.effects import SimpleCommand, word_set

_ENDLESS_DEVICES = word_set("/dev/zero /dev/full /dev/urandom /dev/random")
_MAX_BYTES = 1 << 30
_MAX_LINES = 50_000_000
_SIZE = re.compile(r"\+?(\d+)([kKmMgGtTpPeE]?)(?:i?[bB])?\Z")
_ENDLESS_LOOP = re.compile(
    r"\b(?:while\s+(?::|true|\[\[? 1 \]\]?|\(\(\s*1\s*\)\))|until\s+false"
    r"|for\s*\(\(\s*;\s*;\s*\)\))"
)
_PAUSE = re.compile(r"\b(?:sleep|read|break|exit|wait|timeout|inotifywait|usleep|vmstat|iostat)\b")
_BACKGROUND = re.compile(r"[^&>|]&\s*(?:done|;|\n|\}|\w)")
_MANY_PROCESSES = re.compile(
    r"\b(?:xargs|parallel)\b[^|;&]*?\s(?:-[PjJ]\s*|--(?:max-procs|jobs)[= ])(?:0|\d{3,})(?!\d)"
)
_BOUNDED_COPIES = word_set("head dd")
"""Programs that end after an amount that their words give; `is_large` looks at it."""


def mark_endless_output(commands: Iterable[SimpleCommand], text: str) -> list[SimpleCommand]:
    """Adds the effect `unknown` to commands that may fill the disk, or start ever more processes.

    The kernel bounds the size of each file; a person decides whether it may come to that.
    """
    found = list(commands)
    why = ""
    many = _MANY_PROCESSES.search(text)
    if (_ENDLESS_LOOP.search(text) and _BACKGROUND.search(text)) or many:
        return [_mark(found[0], "starts processes without end"), *found[1:]] if found else []
    if _ENDLESS_LOOP.search(text) and not _PAUSE.search(text):
        why = "a loop without an end and without a pause may fill the disk"
    elif (
        any(map(_is_large, found))
        or _written_bytes(found, text) > _MAX_BYTES
        or (
            any(map(_is_endless, found))
            and not any(command.program in _BOUNDED_COPIES for command in found)
        )
    ):
        why = "may fill the disk"
    if not why:
        return found
    return [
        _mark(command, why) if command.changes and "wipe" not in command.effects else command
        for command in found
    ]


def _mark(command: SimpleCommand, why: str) -> SimpleCommand:
    return replace(
        command, effects=command.effects | {"unknown"}, why=(*command.why, f"unknown: {why}")
    )


def _is_endless(command: SimpleCommand) -> bool:
    return command.program == "yes" or not _ENDLESS_DEVICES.isdisjoint(command.paths)


def _is_large(command: SimpleCommand) -> bool:
    words = command.argv[1:]
    if command.program == "seq":
        numbers = [word for word in words if re.fullmatch(r"\d+", word)]
        return bool(numbers) and int(numbers[-1]) > _MAX_LINES
    if command.program == "truncate":
        return any(
            _bytes(word.partition("=")[2] or word.lstrip("-s")) > _MAX_BYTES for word in words
        )
    endless = not _ENDLESS_DEVICES.isdisjoint(command.paths)
    if command.program == "dd" and endless:
        return not any(word.startswith("count=") for word in words)
    if command.program == "head":
        sizes = [word.removeprefix("-c").removeprefix("--bytes=") for word in words]
        return any(_bytes(size) > _MAX_BYTES for size in sizes)
    return False


_LOOP = re.compile(r"\b(?:for|while|until)\b|\bxargs\b|\bparallel\b|\bseq\b")
_ASSUMED_ROUNDS = 100
"""How often a loop runs of which the number of rounds is not known."""
_LENGTH_OPTION = re.compile(r"(?:-[a-z]*[lsc]|--(?:length|size|bytes))=?(.*)", re.S)


def _written_bytes(commands: Sequence[SimpleCommand], text: str) -> float:
    """Return what the sizes in the words come to together; files that are copied are not
    counted."""
    total = sum(map(_named_bytes, commands))
    return total * (_ASSUMED_ROUNDS if _LOOP.search(text) else 1)


def _named_bytes(command: SimpleCommand) -> float:
    words = command.argv[1:]
    if command.program == "dd":
        given = dict(word.partition("=")[::2] for word in words)
        block = max(_bytes(given.get(name, "512")) for name in ("bs", "obs", "ibs"))
        return block * _bytes(given.get("count", "0")) if "of" in given else 0.0
    if command.program not in ("head", "fallocate", "truncate"):
        return 0.0
    sizes = [
        _bytes(found[1] or after)
        for word, after in pairwise((*words, ""))
        if (found := _LENGTH_OPTION.match(word))
    ]
    return max(sizes, default=0.0)


def _bytes(word: str) -> float:
    found = _SIZE.match(word)
    if found is None:
        return 0.0
    return int(found[1]) * 1024.0 ** ("KMGTPE".find(found[2].upper()) + 1 if found[2] else 0)
