"""Builds the scenario of an incident: the host as it was, what broke it, and how it was fixed."""

import base64
import hashlib
import re
import secrets
import shlex
import string
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.declared.experiments.put_back import item_type
from hermes.declared.experiments.suspects import ServiceContext, rank_suspects
from hermes.declared.state import Item, ItemId, State, StateChange, compare
from hermes.gym.incidents.recorded import (
    MAX_BYTES,
    HostFiles,
    ReadContent,
    RecordedIncident,
)
from hermes.gym.incidents.repeated_checks import RepeatedChecks
from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostFolder,
    HostSpec,
    ScenarioAlert,
    ScenarioSpec,
    UnchangedCheck,
    UnitRunningCheck,
)

MADE_UP_TEXT = "made up for this drill\n"
MAX_UNCHANGED_CHECKS = 12
SETTLE_S = 1.0
PUBLIC_MODE = 0o777


class IncidentDrill(Value, frozen=True, kw_only=True):
    spec: ScenarioSpec
    needs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """What is missing or made up, one line each."""


def build_incident_drill(
    recorded: RecordedIncident, read: ReadContent, redact: Callable[[str], str]
) -> IncidentDrill:
    """Raises `SettingsError` with what is missing."""
    return _DrillBuilder(recorded, read, redact).build()


class _DrillBuilder:
    def __init__(
        self, recorded: RecordedIncident, read: ReadContent, redact: Callable[[str], str]
    ) -> None:
        self._recorded, self._stored = recorded, read
        self._host = HostFiles(recorded.known, read)
        self._left_out: list[str] = []
        self._broken = self._causes()
        self._units = self._host.units(recorded.services)
        paths = [each.item.key for each in self._broken if each.item.kind == "file"]
        self._files = self._host.needed(self._units, paths)
        self._made_up = MadeUpSecrets(redact, self._texts())
        self._checks = RepeatedChecks(recorded)

    def build(self) -> IncidentDrill:
        if not self._checks.symptoms:
            raise SettingsError(
                "no check that failed in this incident can be repeated in a drill: "
                + ("; ".join(self._checks.left_out) or "none was recorded")
            )
        if not self._broken:
            raise SettingsError(
                "nothing differs between the known good state and the failing one that a drill "
                "can repeat; see `hermes incident show` for what was found"
            )
        recorded = self._recorded
        units = tuple(
            HostFile(path=f"{each.name}.service", text=self._made_up(each.text))
            for each in self._units
        )
        files, folders = self._host_files()
        host = HostSpec(
            name=recorded.known.host, files=files, folders=folders, units=units, users=()
        )
        spec = ScenarioSpec(
            hosts=(host,),
            alert=ScenarioAlert(
                title=self._made_up(recorded.title),
                text=self._made_up(recorded.text or recorded.title),
                severity=recorded.severity,
                labels={key: self._made_up(value) for key, value in recorded.labels.items()},
            ),
            healthy=tuple(self._checks.healthy),
            symptoms=tuple(self._checks.symptoms),
            inject=(self._script(self._broken),),
            cure=(FaultTrigger(restart=tuple(f"{each}.service" for each in self._failing)),),
            collateral=tuple(self._collateral()),
            fault=self._fault(),
            reference=(self._script(self._fixed()),),
            traffic=tuple(self._checks.traffic[:1]),
            settle=SETTLE_S,
        )
        if self._made_up.count:
            self._left_out.append(f"{self._made_up.count} secret values: made up")
        needs = dict.fromkeys(name for each in self._units for name in each.programs)
        several = any(file.owner for file in files) or any(each.owner for each in folders)
        several = several or any("\nUser=" in each.text for each in self._units)
        return IncidentDrill(
            spec=spec,
            needs=(*needs, *((SEVERAL_USERS,) if several else ())),
            left_out=(*self._left_out, *self._checks.left_out),
        )

    @property
    def _failing(self) -> list[str]:
        return [name for name in self._recorded.services if self._has_unit(name)]

    def _has_unit(self, name: str) -> bool:
        return any(each.name == name for each in self._units)

    def _causes(self) -> list[StateChange]:
        """From the known good state to the failing one."""
        recorded = self._recorded
        changes = [
            each
            for each in _possible_causes(recorded.known, recorded.failing, recorded.services)
            if each.item.kind == "file" or self._is_failing_service(each.item)
        ]
        labels = [each.partition(" (part ")[0] for each in recorded.causes]
        proved = [each for each in changes if f"{each.item.kind} {each.item.key}" in labels]
        return proved or changes

    def _fixed(self) -> list[StateChange]:
        """From the failing state to the one after the fix; without one, back to the known good."""
        recorded = self._recorded
        if recorded.recovered is not None:
            found = _possible_causes(recorded.failing, recorded.recovered, recorded.services)
            # The services that failed are restarted in any case.
            if files := [each for each in found if each.item.kind == "file"]:
                return files
        return [StateChange(each.item, each.after, each.before) for each in self._broken]

    def _is_failing_service(self, item: ItemId) -> bool:
        return item.key.removesuffix(".service") in self._recorded.services

    def _script(self, changes: Sequence[StateChange]) -> str:
        lines = []
        for each in changes:
            try:
                lines.append(put_item(each.item, each.before, each.after, self._read))
            except UnknownContentError as error:
                self._left_out.append(f"{error}; the drill leaves it as it is")
        if not lines:
            raise SettingsError("the contents of what was changed were not recorded")
        lines.append("systemctl daemon-reload")
        for name in self._failing:
            unit = shlex.quote(name)
            lines.append(f"systemctl reset-failed {unit}; systemctl restart {unit} || true")
        return "\n".join(lines)

    def _read(self, digest: str) -> bytes | None:
        content = self._stored(digest)
        if content is None:
            return None
        try:
            return self._made_up(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _texts(self) -> list[str]:
        recorded = self._recorded
        texts = [each.text for each in self._units]
        texts += [text for path in self._files if (text := self._host.text(path))]
        changed = [item for each in self._broken for item in (each.before, each.after) if item]
        contents = [self._stored(item.digest) for item in changed if item.digest]
        texts += [content.decode("utf-8", "replace") for content in contents if content]
        return [*texts, recorded.title, recorded.text, *recorded.labels.values()]

    def _host_files(self) -> tuple[tuple[HostFile, ...], tuple[HostFolder, ...]]:
        files, folders, size = list[HostFile](), list[HostFolder](), 0
        for path, item in (self._host.accounts() | self._files).items():
            kind, owner = item_type(item), _number(item.attributes.get("uid", "0"))
            mode = int(item.attributes.get("mode", "0") or "0", 8) & 0o7777
            if kind == "folder":
                folders.append(HostFolder(path=path, mode=mode or 0o755, owner=owner))
                continue
            is_link = kind == "link" and self._host.text(path) is not None
            if kind != "file" and not is_link:
                self._left_out.append(f"{path}: a {kind}")
                continue
            if is_link:
                self._left_out.append(f"{path}: a link, a file with the same text in the drill")
            text = self._text_of(path, item)
            size += len(text)
            if size > MAX_BYTES:
                self._left_out.append(f"{path} and further files: over {MAX_BYTES >> 20} MB")
                break
            mode = 0o644 if is_link or not mode else mode
            files.append(HostFile(path=path, text=text, mode=mode, owner=owner))
        for path in self._host.named_and_absent(self._units, list(self._files)):
            folder = path if "." not in path.rpartition("/")[2] else path.rpartition("/")[0]
            folders.append(HostFolder(path=folder, mode=PUBLIC_MODE))
            self._left_out.append(f"{path}: data, an empty folder in the drill")
        return tuple(files), tuple({each.path: each for each in folders}.values())

    def _text_of(self, path: str, item: Item) -> str:
        text = self._host.text(path)
        if text is None:
            empty = item.attributes.get("size") == "0"
            if not empty:
                self._left_out.append(f"{path}: a secret, data or not text; made up")
            return "" if empty else MADE_UP_TEXT
        return self._made_up(text)

    def _collateral(self) -> list[UnchangedCheck | UnitRunningCheck]:
        recorded = self._recorded
        others = [each.name for each in self._units if each.name not in recorded.services]
        found: list[UnchangedCheck | UnitRunningCheck] = [
            UnitRunningCheck(name=f"{name} was left alone", unit=f"{name}.service")
            for name in others
            if _is_active(recorded.failing, name)
        ]
        states = [recorded.failing, *([recorded.recovered] if recorded.recovered else [])]
        kept = [
            path
            for path, item in self._files.items()
            if item_type(item) == "file"
            and all(_same(state.items.get(ItemId("file", path)), item) for state in states)
        ]
        found += [
            UnchangedCheck(name=f"{path} is unchanged", path=path)
            for path in kept[:MAX_UNCHANGED_CHECKS]
        ]
        return found

    def _fault(self) -> FaultDescription:
        keys = [each.item.key for each in self._broken]
        names = [key.rpartition("/")[2] for key in keys]
        verbs = ["removed", "missing"] if self._broken[0].after is None else ["changed", "edited"]
        values = [
            word for each in self._broken for word in _new_words(each, self._read) if len(word) > 1
        ]
        return FaultDescription(
            component=tuple(dict.fromkeys([*keys, *names])),
            mechanism=(*verbs, *names),
            value=tuple(dict.fromkeys(values))[:8],
        )


def _possible_causes(before: State, after: State, services: Sequence[str]) -> list[StateChange]:
    context = ServiceContext(names=tuple(services))
    suspects = rank_suspects(compare(before, after), context)
    return [
        change
        for each in suspects
        for change in each.changes
        if change.item.kind in REPEATABLE_KINDS
    ]


def _new_words(change: StateChange, read: ReadContent) -> list[str]:
    """Values that the change brought."""
    if change.item.kind != "file" or change.after is None:
        return []
    texts = [
        (read(item.digest) or b"").decode("utf-8", "replace") if item and item.digest else ""
        for item in (change.before, change.after)
    ]
    old = set(texts[0].split())
    return [word.strip("\"';,") for word in texts[1].split() if word not in old][:8]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _is_active(state: State, name: str) -> bool:
    item = state.items.get(ItemId("service", f"{name}.service"))
    item = item or state.items.get(ItemId("service", name))
    return item is not None and item.attributes.get("active") == "active"


def _same(now: Item | None, before: Item) -> bool:
    if now is None:
        return False
    names = ("mode", "uid", "gid")
    alike = all(now.attributes.get(name) == before.attributes.get(name) for name in names)
    return alike and now.digest == before.digest


REPEATABLE_KINDS = ("file", "service")


class UnknownContentError(Exception):
    """Only the digest of a file is known."""


def put_item(id: ItemId, now: Item | None, wanted: Item | None, read: ReadContent) -> str:
    """From its state `now` to the wanted one. Raises `UnknownContentError`."""
    if id.kind == "service":
        active = wanted is not None and wanted.attributes.get("active") == "active"
        name = shlex.quote(id.key)
        return f"systemctl {'start' if active else 'stop'} {name} || true"
    return " && ".join(_file_commands(id.key, now, wanted, read))


def _file_commands(
    path: str, now: Item | None, wanted: Item | None, read: ReadContent
) -> Sequence[str]:
    quoted = shlex.quote(path)
    if wanted is None:
        return [f"rm -rf -- {quoted}"]
    kind = item_type(wanted)
    parent = f"mkdir -p -- {shlex.quote(str(PurePosixPath(path).parent))}"
    if kind == "link":
        return [parent, f"ln -sfn -- {shlex.quote(wanted.attributes['link'])} {quoted}"]
    if kind == "folder":
        return [f"mkdir -p -- {quoted}", *_attribute_commands(quoted, wanted)]
    if now is not None and now.digest == wanted.digest and item_type(now) == "file":
        return _attribute_commands(quoted, wanted)
    content = read(wanted.digest) if wanted.digest else None
    if content is None:
        raise UnknownContentError(f"{path}: only its digest was recorded")
    encoded = base64.b64encode(content).decode()
    write = f"printf %s {encoded} | base64 -d > {quoted}" if encoded else f": > {quoted}"
    replaced = now is not None and item_type(now) != "file"
    first = [parent, f"rm -rf -- {quoted}"] if replaced else [parent]
    return [*first, write, *_attribute_commands(quoted, wanted)]


def _attribute_commands(quoted: str, wanted: Item) -> list[str]:
    attributes = wanted.attributes
    found = []
    if attributes.get("uid", "").isdigit():
        found.append(f"chown {attributes['uid']}:{attributes.get('gid', '0')} {quoted}")
    if attributes.get("mode"):
        found.append(f"chmod {attributes['mode'][-4:]} {quoted}")
    return found or ["true"]


MIN_LENGTH = 4
_MARK = re.compile(r"«[^«»]*»")
_CODE = re.compile(r"[()\[\]{}$\s]")


class MadeUpSecrets:
    """`redact` marks secrets in a text. Values are learned from all texts first: a secret may stand
    in another file in a form that no pattern recognizes."""

    def __init__(self, redact: Callable[[str], str], texts: Iterable[str]) -> None:
        self._redact, self._key = redact, secrets.token_bytes(16)
        found = {value for text in texts for value in self._secrets_in(text)}
        self._values = {each: self._make_up(each) for each in found}

    @property
    def count(self) -> int:
        return len(self._values)

    def __call__(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, self._values[value])
        return text

    def _secrets_in(self, text: str) -> Iterable[str]:
        """Return what the redacted text has marks for."""
        cleaned = self._redact(text)
        if cleaned == text:
            return
        pieces = _MARK.split(cleaned)
        matched = re.fullmatch("(.*?)".join(map(re.escape, pieces)), text, re.DOTALL)
        for value in matched.groups() if matched else ():
            plain = value.strip("'\"")
            if len(plain) >= MIN_LENGTH and not _CODE.search(plain):
                yield plain

    def _make_up(self, value: str) -> str:
        """As long as the secret, with letters for letters and digits for digits."""
        numbers = hashlib.shake_256(self._key + value.encode()).digest(len(value))
        return "".join(map(_similar, value, numbers))


def _similar(letter: str, number: int) -> str:
    for letters in (string.ascii_lowercase, string.ascii_uppercase, string.digits):
        if letter in letters:
            return letters[number % len(letters)]
    return letter
