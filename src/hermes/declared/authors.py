"""Finds who made a change, from logs of the host and from our own journal.

An author is named only with evidence. Otherwise the answer is "unknown", with what would make it
known next time.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermes.core.messages import Value
from hermes.declared.change_log import UNKNOWN_AUTHOR, ChangeAuthor
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.state import StateChange

MAX_CHANGES = 200
"""Changes of one round for which logs are searched."""
EDITOR_TIME = timedelta(hours=1)
"""An editor may have been opened so long before the change."""
CLOCK_TOLERANCE = timedelta(seconds=5)
_SUDO = re.compile(
    r"^(?P<time>\w{3} +\d+ [\d:]{8}|\d{4}-\S+) \S+ sudo(?:\[\d+\])?: +(?P<user>\S+) : "
    r".*?PWD=(?P<folder>\S+) ;.*?COMMAND=(?P<command>.+)$",
    re.MULTILINE,
)
_SHELL = re.compile(r"(?:^|/)(?:ba|z|da|fi)?sh\b|(?:^|/)su\b")
_DPKG = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d [\d:]{8}) (?P<verb>install|upgrade|remove|purge) "
    r"(?P<name>[^: ]+)\S* (?P<old>\S+) (?P<new>\S+)$",
    re.MULTILINE,
)
_APT = re.compile(r"^Start-Date: (?P<time>[\d-]+ +[\d:]+)\n(?P<body>(?:.+\n)+)", re.MULTILINE)
_AUDIT_USER = re.compile(r"audit\((?P<time>[\d.]+):\d+\).*? auid=(?P<auid>\d+)")
_AUDIT_NAME = re.compile(r'audit\((?P<time>[\d.]+):(?P<serial>\d+)\).*? name="(?P<name>[^"]+)"')
UNKNOWN_RULE_AUTHOR = ChangeAuthor(
    unknown_because="no log names who changed the packet filter; an audit rule would show the calls"
    " of nft: auditctl -w /usr/sbin/nft -p x -k nft"
)
_NO_LOGIN_UID = "4294967295"


class OwnCommand(Value, frozen=True):
    """A command that Hermes ran, from its journal."""

    at: datetime
    run: str
    text: str


class HostLogs(Value, frozen=True, kw_only=True):
    """The ends of the logs that name authors."""

    zone: str = "+0000"
    dpkg: str = ""
    apt: str = ""
    sudo: str = ""
    audit: str = ""
    git: str = ""
    users: str = ""


async def read_host_logs(run: RunCommand, changes: Sequence[StateChange]) -> HostLogs:
    paths = [each.item.key for each in changes[:MAX_CHANGES] if each.item.kind == "file"]
    script = (Path(__file__).parent / "collectors/scripts/authors.sh").read_text(encoding="utf-8")
    _, output = await run(script, "\n".join([*paths, ""]).encode())
    sections = re.split(r"^hermes-log (\w+)\n", output.decode("utf-8", "replace"), flags=re.M)
    found = dict(zip(sections[1::2], sections[2::2], strict=False))
    known = {name: found.get(name, "") for name in HostLogs.__struct_fields__}
    known["zone"] = known["zone"].strip() or "+0000"
    return HostLogs(**known)


class AuthorSearch:
    """Searches logs for the authors of changes made after `after` and until `until`."""

    def __init__(
        self, logs: HostLogs, own: Sequence[OwnCommand], after: datetime, until: datetime
    ) -> None:
        self._logs, self._own, self._after, self._until = logs, own, after, until

    def find(self, change: StateChange) -> ChangeAuthor:
        for search in (self._hermes, self._audit, self._package, self._sudo, self._git):
            if (author := search(change)) is not None:
                return author
        return UNKNOWN_RULE_AUTHOR if change.item.kind == "packet-filter" else self._unknown()

    def _hermes(self, change: StateChange) -> ChangeAuthor | None:
        for each in reversed(self._own):
            if _names(each.text, change.item.key) and self._is_before(each.at, change):
                shown = " ".join(each.text.split())[:120]
                return ChangeAuthor(
                    f"hermes {each.run}", f"our journal: {shown} at {_clock(each.at)}"
                )
        return None

    def _audit(self, change: StateChange) -> ChangeAuthor | None:
        lines = self._logs.audit.splitlines()
        serials = {
            match["serial"]
            for line in lines
            if (match := _AUDIT_NAME.search(line)) and match["name"] == change.item.key
        }
        for line in reversed(lines):
            user = _AUDIT_USER.search(line)
            if user is None or not any(f":{serial})" in line for serial in serials):
                continue
            at = datetime.fromtimestamp(float(user["time"]), UTC)
            if user["auid"] != _NO_LOGIN_UID and self._is_before(at, change):
                name = self._user_name(user["auid"])
                return ChangeAuthor(name, f"the audit log has its login uid at {_clock(at)}")
        return None

    def _package(self, change: StateChange) -> ChangeAuthor | None:
        names = {change.item.key} if change.item.kind == "package" else set[str]()
        for match in reversed(list(_DPKG.finditer(self._logs.dpkg))):
            at = self._local_time(match["time"])
            if at is None or not self._is_before(at, change, EDITOR_TIME):
                continue
            owned = change.item.kind == "file" and self._belongs(change.item.key, match["name"])
            if match["name"] in names or owned:
                by = self._apt_user(at)
                what = f"{match['verb']} {match['name']} {match['new']}"
                return ChangeAuthor(by or "dpkg", f"the package log: {what} at {_clock(at)}")
        return None

    @staticmethod
    def _belongs(path: str, package: str) -> bool:
        """Only what is certain by name: files in the folder of the package."""
        return f"/{package}/" in path or path.endswith((f"/{package}", f"/{package}.service"))

    def _apt_user(self, at: datetime) -> str:
        for match in reversed(list(_APT.finditer(self._logs.apt))):
            started = self._local_time(" ".join(match["time"].split()))
            if started is not None and started <= at + CLOCK_TOLERANCE:
                by = re.search(r"^Requested-By: (\S+)", match["body"], re.MULTILINE)
                unattended = "unattended-upgrade" in match["body"]
                return by[1] if by else "unattended-upgrade" if unattended else ""
        return ""

    def _sudo(self, change: StateChange) -> ChangeAuthor | None:
        for at, match in self._sudo_entries():
            command = match["command"]
            relative = command.replace(" ", f" {match['folder']}/")
            named = _names(command, change.item.key) or _names(relative, change.item.key)
            if named and self._is_before(at, change, EDITOR_TIME):
                return ChangeAuthor(
                    match["user"], f"the log of sudo: {command[:120]} at {_clock(at)}"
                )
        return None

    def _sudo_entries(self) -> Iterator[tuple[datetime, re.Match[str]]]:
        """The latest first."""
        for match in reversed(list(_SUDO.finditer(self._logs.sudo))):
            at = self._local_time(match["time"])
            if at is not None:
                yield at, match

    def _git(self, change: StateChange) -> ChangeAuthor | None:
        for line in self._logs.git.splitlines():
            fields = line.split("\t")
            if len(fields) == 4 and fields[0] == change.item.key and fields[1].isdigit():
                at = datetime.fromtimestamp(int(fields[1]), UTC)
                return ChangeAuthor(
                    fields[2], f"git: its content is that of {fields[3][:80]} of {_clock(at)}"
                )
        return None

    def _unknown(self) -> ChangeAuthor:
        for at, match in self._sudo_entries():
            within = self._after - EDITOR_TIME <= at <= self._until
            if within and _SHELL.search(match["command"].split(" ")[0]):
                return ChangeAuthor(
                    unknown_because=f"{match['user']} had a root shell from {_clock(at)}, but no "
                    "log names its commands; an audit rule would: auditctl -w /etc -p wa -k etc"
                )
        return UNKNOWN_AUTHOR

    def _is_before(
        self, at: datetime, change: StateChange, before: timedelta = timedelta(minutes=2)
    ) -> bool:
        latest = (change.at or self._until) + CLOCK_TOLERANCE
        earliest = (change.at or self._after) - before
        return earliest <= at <= latest

    def _local_time(self, text: str) -> datetime | None:
        """Times of logs: ISO 8601, or without year and zone."""
        try:
            if text[:4].isdigit():
                found = datetime.fromisoformat(text)
            else:
                found = datetime.strptime(f"{self._until.year} {text}", "%Y %b %d %H:%M:%S")  # noqa: DTZ007 - the zone follows
            if found.tzinfo is None:
                found = datetime.strptime(
                    f"{found:%Y-%m-%d %H:%M:%S} {self._logs.zone}", "%Y-%m-%d %H:%M:%S %z"
                )
        except ValueError:
            return None
        return found.astimezone(UTC)

    def _user_name(self, uid: str) -> str:
        for line in self._logs.users.splitlines():
            name, _, number = line.partition(" ")
            if number == uid:
                return name
        return f"uid {uid}"


def _names(text: str, key: str) -> bool:
    """Return whether a command names the item as a whole word."""
    return re.search(rf"(?<![\w./-]){re.escape(key)}(?![\w/-])", text) is not None


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
