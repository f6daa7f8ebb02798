#!/usr/bin/env python3
"""`crontab` for a host of a box: list, replace, edit and remove the table of a user.

Started many times in an episode: imports little, so that it starts quickly.
"""

from __future__ import annotations

import os
import pwd
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE_FOLDER = "/var/spool/cron/crontabs"
EDITOR = "${VISUAL:-$EDITOR}"
USAGE = "usage: crontab [-u USER] FILE | - | -l | -e | -r"
FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day-of-month", 1, 31),
    ("month", 1, 12),
    ("day-of-week", 0, 7),
)
SCHEDULE_WORDS = (
    *("@reboot", "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"),
)


def check_table(text: str) -> str:
    """The first error with its line, else an empty text."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(None, 5)
        if not words or words[0][0] == "#" or "=" in words[0]:
            continue
        if words[0][0] == "@":
            if words[0] not in SCHEDULE_WORDS or len(words) < 2:
                return f"{number}: bad time specifier"
            continue
        for (name, low, high), field in zip(FIELDS, (*words, *[""] * 5), strict=False):
            if not _is_valid_field(field, low, high):
                return f"{number}: bad {name}"
        if len(words) < 6:
            return f"{number}: bad command"
    return ""


def _is_valid_field(field: str, low: int, high: int) -> bool:
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdigit() and int(step)):
            return False
        first, dash, last = span.partition("-")
        numbers = [first, last] if dash else [first]
        if span == "*" or (span.isalpha() and len(span) == 3):  # a name such as mon
            continue
        if not all(each.isdigit() and low <= int(each) <= high for each in numbers):
            return False
    return bool(field)


def install_table(text: str, path: str, source: str) -> int:
    if problem := check_table(text):
        sys.stderr.write(f'"{source}":{problem}\nerrors in crontab file, can\'t install.\n')
        return 1
    os.makedirs(TABLE_FOLDER, exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
    with open(f"{path}.new", "w") as file:  # noqa: PTH123 - see above
        file.write(text)
    os.chmod(f"{path}.new", 0o600)  # noqa: PTH101 - see above
    os.rename(f"{path}.new", path)  # noqa: PTH104 - see above
    return 0


def _run_shell(script: str, *words: str) -> int:
    return os.spawnlp(os.P_WAIT, "sh", "sh", "-c", script, "sh", *words)


def edit_table(text: str, path: str) -> int:
    if _run_shell(f'test -n "{EDITOR}"'):
        sys.stderr.write("crontab: no editor; set EDITOR, or write the table with: crontab -\n")
        return 1
    draft = f"/tmp/crontab.{os.getpid()}"
    with open(draft, "w") as file:  # noqa: PTH123 - see above
        file.write(text)
    try:
        if _run_shell(f'{EDITOR} "$1"', draft):
            sys.stderr.write("crontab: the editor failed, nothing was changed\n")
            return 1
        with open(draft, errors="replace") as file:  # noqa: PTH123 - see above
            return install_table(file.read(), path, draft)
    finally:
        os.unlink(draft)  # noqa: PTH108 - see above


def main(words: Sequence[str]) -> int:
    rest, user = list(words), pwd.getpwuid(os.getuid()).pw_name
    if "-u" in rest[:-1]:
        at = rest.index("-u")
        user = rest[at + 1]
        del rest[at : at + 2]
    path = f"{TABLE_FOLDER}/{user}"
    if len(rest) > 1 or (rest and rest[0][:1] == "-" and rest[0] not in ("-", "-l", "-e", "-r")):
        sys.stderr.write(f"{USAGE}\n")
        return 1
    exists = os.path.exists(path)  # noqa: PTH110 - see above
    text = ""
    if exists:
        with open(path, errors="replace") as file:  # noqa: PTH123 - see above
            text = file.read()
    what = rest[0] if rest else "-"
    if what in ("-l", "-r") and not exists:
        sys.stderr.write(f"no crontab for {user}\n")
        return 1
    if what == "-l":
        sys.stdout.write(text)
    elif what == "-r":
        os.unlink(path)  # noqa: PTH108 - see above
    elif what == "-e":
        return edit_table(text, path)
    elif what == "-":
        return install_table(sys.stdin.read(), path, "-")
    else:
        with open(what, errors="replace") as file:  # noqa: PTH123 - see above
            return install_table(file.read(), path, what)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.stderr.write(f"crontab: {error}\n")
        sys.exit(1)
