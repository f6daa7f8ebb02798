"""Says what changed on the host shortly before an outage: files, packages and logins."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from hermes.core.events.incidents import EscalationLine
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration
from hermes.sre.escalation.host_lines import clock_text, joined, line, words_with
from hermes.sre.escalation.host_scripts import HostRow, HostRows
from hermes.sre.escalation.next_commands import SETTINGS_FILE

MAX_CHANGES, MAX_UNRELATED_CHANGES, MAX_NAMES = 8, 3, 5
CHANGE_DELAY_S = 5.0
"""How long after the first failure a change may be written that came before it."""
RECENT_CHANGE_S = 120.0
ACCOUNT_FILES = ("/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/group")
_FOLDER_CHANGE, _CONTENT_CHANGE = "a file was added, removed or renamed in", "written:"


class _Change(Value, frozen=True):
    at: float
    what: str
    """In words, up to the names."""
    folder: str
    name: str
    more: str
    row: HostRow

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"


def change_lines(found: HostRows, service: str, began_at: datetime) -> Iterator[EscalationLine]:
    """The last change of the service first, then what is nearest before the outage."""
    latest, now = began_at.timestamp() + CHANGE_DELAY_S, found.first("now")[0]
    changes = [each for each in map(_file_change, found.of("file")) if each is not None]
    before = [each for each in _without_parents(changes) if each.at <= latest]
    word = _service_word(service)
    own = [each for each in before if len(word) > 2 and word in each.path.lower()]
    others = [each for each in before if each not in own]
    groups = [*_grouped(own)[:MAX_CHANGES], *_grouped(others)[:MAX_UNRELATED_CHANGES]]
    for group in [*groups[:1], *sorted(groups[1:], key=lambda each: -each[0].at)]:
        yield line("change", _change_text(group, began_at.timestamp()), group[0].row)
    for row in found.of("package")[-MAX_UNRELATED_CHANGES:]:
        yield line("change", f"package: {row[0]}", row)
    for row in found.of("login")[:MAX_UNRELATED_CHANGES]:
        yield line("change", f"login: {row[0]}", row)
    future = [e for e in changes if now.isdigit() and e.at > float(now) + CHANGE_DELAY_S]
    if future:
        text = f"{future[0].path} has a time in the future: the clock was set back"
        yield line("change", text, future[0].row)
    if not (before or future or found.of("cut")) and "changes" in found.answered:
        seen = HostRow((), found.answered["changes"])
        yield line("change", "no file in /etc, /opt, /srv or /usr/local in the last hour", seen)


def changed_files(found: HostRows, service: str, began_at: datetime) -> list[str]:
    """Settings of the service that were written shortly before the outage, the last ones first. An
    installation that wrote other files at the same moment does not count."""
    latest = began_at.timestamp() + CHANGE_DELAY_S
    changes = [each for each in map(_file_change, found.of("file")) if each is not None]
    recent = [e for e in changes if e.what == _CONTENT_CHANGE and e.at <= latest]
    word, moments = _service_word(service), dict[int, list[_Change]]()
    for each in recent:
        moments.setdefault(int(each.at), []).append(each)
    return [
        each.path
        for at, group in moments.items()
        if at >= latest - RECENT_CHANGE_S and len(word) > 2
        for each in group
        if all(word in other.path.lower() for other in group) and SETTINGS_FILE.search(each.path)
    ]


def _service_word(service: str) -> str:
    return re.split(r"[-_.@]", service.lower())[0] if service else ""


def _without_parents(changes: Sequence[_Change]) -> list[_Change]:
    """Without folders of which a change inside is known: it explains theirs."""
    inside = {(each.folder, int(each.at) + shift) for each in changes for shift in (-1, 0, 1)}
    return [
        each
        for each in changes
        if each.what != _FOLDER_CHANGE or (each.path, int(each.at)) not in inside
    ]


def _grouped(changes: Sequence[_Change]) -> list[list[_Change]]:
    """Changes of one kind in one folder at the same moment."""
    groups: dict[tuple[str, str, str, int], list[_Change]] = {}
    for each in changes:
        groups.setdefault((each.folder, each.what, each.more, int(each.at)), []).append(each)
    return list(groups.values())


def _change_text(group: Sequence[_Change], began_s: float) -> str:
    first, names = group[0], sorted(each.name for each in group)
    ago = began_s - first.at
    when = f" ({format_duration(ago)} before it failed)" if ago >= 0 else ""
    listed = ", ".join(names[:MAX_NAMES]) + (" and others" if len(names) > MAX_NAMES else "")
    return f"{clock_text(first.at)}{when} {first.what} {first.folder}/{listed}{first.more}"


def _file_change(row: HostRow) -> _Change | None:
    if not (row[0].isdigit() and row[1].isdigit()):
        return None
    changed_at, content = float(row[0]), float(row[1]) >= float(row[0]) - 1
    folder, _, name = row[4].rpartition("/")
    if row[3].startswith("d") and content:
        return _Change(changed_at, _FOLDER_CHANGE, folder, name, "", row)
    if content:
        now = "empty now" if row[5] == "0" else ""
        more = words_with(" (", joined(words_with("owner ", row[2]), now), ")")
        return _Change(changed_at, _CONTENT_CHANGE, folder, name, more, row)
    if row[4].startswith(ACCOUNT_FILES):
        return None  # only its metadata: mounts and backups change that
    # A copy that keeps its times looks like this as well.
    what = "replaced by an older file, or owner, mode or name changed:"
    more = words_with(" (now ", f"{row[2]} {row[3]}".strip(), ")")
    return _Change(changed_at, what, folder, name, more, row)
