#!/usr/bin/env python3
"""`journalctl` for a host of a box. Imports little, like `systemctl`: `re` only for a pattern."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    JournalEntry = tuple[float, str, str]

JOURNAL_FOLDER = "/run/log/journal"
SECONDS_BY_UNIT = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60}
SECONDS_BY_UNIT |= {"h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
SHORT_OPTIONS = {
    "-S": "--since",
    "-U": "--until",
    "-g": "--grep",
    "-o": "--output",
    "-n": "--lines",
}
SHORT_OPTIONS |= {"-p": "--priority", "-t": "--identifier", "-u": "--unit"}
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
DEFAULT_PRIORITY = 6
"""Of what a service prints, unless the line begins with another one, such as `<3>`."""
SUPERVISOR = "systemd[1]"
SUPERVISOR_PRIORITIES = (
    ("Failed to start", 3),
    ("Failed with result", 4),
    ("Failed to parse", 4),
    ("timed out. Killing", 4),
    ("OOM killer", 4),
    ("code=killed", 5),
    ("code=exited, status=0", 6),
    ("code=exited", 5),
)
"""By what a line of the supervisor contains, the first that fits."""
SHORT_FLAGS = {"-r": "--reverse", "-f": "--follow", "-q": "--quiet"}


class JournalctlArguments:
    def __init__(self, words: Sequence[str]) -> None:
        self.units: list[str] = []
        self.values: dict[str, str] = {}
        self.flags: set[str] = set()
        rest = iter(words)
        for word in rest:
            self._take(word, rest)

    def _take(self, word: str, rest: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        letters = word[1:] if word[:1] == "-" else ""
        if word[:2] == "-n" and word[2:].isdigit():
            self.values["--lines"] = word[2:]
        elif word[:2] == "-p" and word[2:]:
            self.values["--priority"] = word[2:].lstrip("=")
        elif (letters.isalpha() and letters[-1] == "u") or name == "--unit":  # -u, -xeu, -fu
            self.units.append(value if equals else next(rest, ""))
        elif name in SHORT_OPTIONS or name in SHORT_OPTIONS.values():
            self.values[SHORT_OPTIONS.get(name, name)] = value if equals else next(rest, "")
        else:
            self.flags.add(SHORT_FLAGS.get(word, word))


def parse_time(text: str) -> float:
    now = time.localtime()
    today = time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
    if text in ("today", "yesterday"):
        return today - (86_400 if text == "yesterday" else 0)
    span = text.strip().lstrip("-").removesuffix("ago").strip()
    unit = span.lstrip("0123456789").strip()
    number = span[: len(span) - len(span.lstrip("0123456789"))]
    if number and (unit in SECONDS_BY_UNIT or unit.removesuffix("s") in SECONDS_BY_UNIT):
        return (
            time.time()
            - int(number) * SECONDS_BY_UNIT[unit if unit in SECONDS_BY_UNIT else unit[:-1]]
        )
    for shape in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"):
        try:
            return time.mktime(time.strptime(text, shape))
        except ValueError:
            continue
    return 0.0


def read_entries(arguments: JournalctlArguments) -> list[JournalEntry]:
    names = [name if "." in name else f"{name}.service" for name in arguments.units]
    files = names or sorted(os.listdir(JOURNAL_FOLDER))  # noqa: PTH208 - pathlib is slow to import
    # By time only: lines of the same time keep their order.
    found = sorted(
        (entry for file in files for entry in _read_log(file)), key=lambda entry: entry[0]
    )
    since = parse_time(arguments.values["--since"]) if "--since" in arguments.values else 0.0
    until = (
        parse_time(arguments.values["--until"]) if "--until" in arguments.values else float("inf")
    )
    found = [each for each in found if since <= each[0] <= until]
    if "--priority" in arguments.values:
        most, least = parse_priorities(arguments.values["--priority"])
        found = [each for each in found if most <= entry_priority(each[1], each[2]) <= least]
    if "--grep" in arguments.values:
        pattern = __import__("re").compile(arguments.values["--grep"])
        found = [each for each in found if pattern.search(each[2])]
    lines = arguments.values.get("--lines", "")
    return found[-int(lines) :] if lines.isdigit() else found


def parse_priorities(text: str) -> tuple[int, int]:
    """The most and the least urgent: `err`, `3`, or a range such as `crit..warning`."""
    first, dots, last = text.partition("..")
    low, high = _priority_number(first), _priority_number(last if dots else first)
    return (min(low, high), max(low, high)) if dots else (0, low)


def _priority_number(text: str) -> int:
    word = {"error": "err", "warn": "warning", "panic": "emerg"}.get(text, text)
    if word in PRIORITIES:
        return PRIORITIES.index(word)
    if text.isdigit() and int(text) < len(PRIORITIES):
        return int(text)
    raise ValueError(f"Unknown log level {text}")


def entry_priority(source: str, text: str) -> int:
    if text[:1] == "<" and text[1:2].isdigit() and text[2:3] == ">":
        return int(text[1])
    if source != SUPERVISOR:
        return DEFAULT_PRIORITY
    return next((number for words, number in SUPERVISOR_PRIORITIES if words in text), 6)


def _read_log(name: str) -> Iterator[JournalEntry]:
    try:
        with open(f"{JOURNAL_FOLDER}/{name}", errors="replace") as file:  # noqa: PTH123 - see above
            lines = file.read().split("\n")
    except OSError:
        return
    for line in lines:
        at, tab, rest = line.partition("\t")
        who, _, text = rest.partition("\t")
        if tab:
            yield float(at), who, text


def print_entry(entry: JournalEntry, arguments: JournalctlArguments) -> None:
    stamp = time.strftime("%b %d %H:%M:%S", time.localtime(entry[0]))
    if arguments.values.get("--output") == "short-unix":
        stamp = f"{entry[0]:.6f}"
    bare = arguments.values.get("--output") == "cat"
    text = entry[2]
    if text[:1] == "<" and text[1:2].isdigit() and text[2:3] == ">":
        text = text[3:]
    line = text if bare else f"{stamp} {os.uname().nodename} {entry[1]}: {text}"
    sys.stdout.write(f"{line}\n")


def follow_entries(last: float, arguments: JournalctlArguments) -> None:
    while True:
        sys.stdout.flush()
        time.sleep(0.5)
        for entry in read_entries(arguments):
            if entry[0] > last:
                last = entry[0]
                print_entry(entry, arguments)


def main(words: Sequence[str]) -> int:
    arguments = JournalctlArguments(words)
    try:
        found = read_entries(arguments)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except Exception as error:  # `re` is loaded only for a pattern
        if type(error).__name__ not in ("error", "PatternError"):  # those of `re`
            raise
        sys.stderr.write(f"Bad pattern: {error}\n")
        return 1
    for entry in reversed(found) if "--reverse" in arguments.flags else found:
        print_entry(entry, arguments)
    if not found and "--quiet" not in arguments.flags:
        sys.stdout.write("-- No entries --\n")
    if "--follow" in arguments.flags:
        follow_entries(found[-1][0] if found else time.time(), arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)
