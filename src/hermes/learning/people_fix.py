"""Writes a draft playbook from what people changed to end an incident.

What they changed is known from the states of the host, not from their commands. It is repeated on
copies of the failing host, where the checks must fail before and pass afterwards.
"""

import re
import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.learning.fix_commands import (
    ASSIGNED,
    KEPT,
    PATH,
    FixCommand,
    FixedFile,
    ValueEdit,
    fix_commands,
    value_edits,
)
from hermes.skills.distill.distillation import DistilledSkill, distill_steps
from hermes.skills.distill.rehearsal import (
    CommandOutput,
    RehearsalContrast,
    RehearsalResult,
    RunRehearsal,
    compare_before_after,
)
from hermes.skills.distill.verified_run import DistillationError, RunCommand, VerifiedRun

REHEARSAL_FOLDER = "/var/tmp/hermes-rehearsal"
BACKUP_FOLDERS = ("/var/backups", "/srv/copies", "/srv/backups", "/opt/backups")
BACKUP_ENDINGS = (".bak", ".orig", ".old", ".save", "~", ".dpkg-dist")
MAX_VALUE_CHARS = 200
SERVICE_WORDS = ("journalctl", "systemctl is-active")
"""Commands that print what a service or its supervisor says."""
CATEGORIES = (
    (r"^/etc/(cron|anacron)|/crontabs/", "jobs"),
    (r"/(hosts|resolv\.conf|nsswitch\.conf)$|nginx|haproxy|nft|iptables", "network"),
    (r"postgres|mysql|mariadb|redis|mongo", "database"),
    (r"/systemd/|/supervisor", "process"),
)
"""By path; the folder of a draft is named after it."""


class PeopleFix(Value, frozen=True, kw_only=True):
    """The changes that people made, reduced to those that were needed."""

    details: IncidentDetails
    services: tuple[str, ...]
    files: tuple[FixedFile, ...]
    commands: tuple[FixCommand, ...] = ()
    """For what is no file, such as a service that was stopped."""
    activations: tuple[str, ...] = ()
    """Restarts and reloads that made it take effect on a copy."""
    checks: tuple[str, ...] = ()
    """Commands that succeed once it is fixed."""
    symptoms: tuple[str, ...] = ()
    """Those of them that observe the symptom where nothing else does."""
    recovered: tuple[str, ...] = ()
    """Names of the checks that failed and pass now."""

    @property
    def category(self) -> str:
        for pattern, name in CATEGORIES:
            if any(re.search(pattern, each.path) for each in self.files):
                return name
        owner_only = all(each.failing == each.fixed for each in self.files)
        return "files" if self.files and owner_only else "change"


def repeated_commands(fix: PeopleFix) -> list[FixCommand]:
    """All that repeats the fix, in order. Raises `CannotRepeatError`."""
    restarts = [FixCommand(command=each, restarts=True) for each in fix.activations]
    return [*fix_commands(fix.files), *fix.commands, *restarts]


def observation_commands(fix: PeopleFix) -> list[str]:
    """Commands that only read: where names, paths and values can be found on the next host."""
    found = []
    for name in fix.services:
        unit = shlex.quote(name)
        found += _structural_sources(fix, unit)
        found += _named_file_sources(fix, name.removesuffix(".service"))
        found += [
            f"systemctl cat {unit}",
            f"systemctl show -p DropInPaths --value {unit}",
        ]
        found += [
            _kept_setting_source(each.path, unit)
            for each in fix.files
            if any(edit.failing_value is None for edit in value_edits(each) or ())
        ]
        found += [
            f"systemctl is-active {unit}",
            f"journalctl -u {unit} -n 30 -o cat --no-pager",
        ]
    for each in fix.files:
        if each.owner or each.mode:
            found.append(f"stat -c '%u:%g %a %n' {shlex.quote(each.path)}")
        if each.link:
            found += _link_sources(each)
        elif each.failing is None or each.fixed is None:
            found.append(f"ls -d {shlex.quote(each.path)}")
        for edit in value_edits(each) or ():
            found += _value_sources(edit)
    return list(dict.fromkeys(found))


_ONLY_ONE = "awk '{ l = $0 } END { if (NR != 1) exit 1; print l }'"
"""What several lines say is not clear: the next host may have others."""


def _structural_sources(fix: PeopleFix, unit: str) -> list[str]:
    """Where the host itself shows what is wrong: names and paths need not be known then."""
    found = []
    for each in fix.files:
        edits = value_edits(each) or ()
        found += [_absurd_value_source(edit, unit) for edit in edits if edit.has_absurd_value]
        found += [
            source
            for edit in edits
            if edit.moved_path
            for source in _missing_path_sources(*edit.moved_path, unit)
        ]
    return found


def _named_file_sources(fix: PeopleFix, service: str) -> list[str]:
    """Files with the name of the service, wherever the next host has them."""
    paths = [each.path for each in fix.files]
    paths += [path for each in fix.activations for path in PATH.findall(each)]
    names = dict.fromkeys(path.rpartition("/")[2] for path in paths)
    return [
        f"find /etc /opt /srv -maxdepth 5 -type f -name {shlex.quote(name)} | {_ONLY_ONE}"
        for name in names
        if service in name and not name.endswith((".service", ".timer"))
    ]


def _missing_path_sources(wrong: str, right: str, unit: str) -> list[str]:
    """The only path in the unit that does not exist, and the last one that does: of the same name
    below the folder that is left, or in the place of another name."""
    missing = (
        f"systemctl cat {unit} | grep -oE '/[A-Za-z0-9_./@+-]+' | sort -u"
        f' | while read -r f; do [ -e "$f" ] || echo "$f"; done | {_ONLY_ONE}'
    )
    if wrong.rpartition("/")[2] != right.rpartition("/")[2]:
        return [missing, f'ls -d "$(dirname {shlex.quote(wrong)})"/* | sort -V | tail -n 1']
    moved = (
        'while read -r f; do d=$f; while [ "$d" ] && [ ! -d "$d" ]; do d=${d%/*}; done;'
        ' [ "${d#/*/}" != "$d" ] || exit 1;'
        ' find "$d" -type f -name "${f##*/}"; done | sort -V | tail -n 1'
    )
    return [missing, f"{missing} | {moved}"]


def _absurd_value_source(edit: ValueEdit, unit: str) -> str:
    """The only setting, in the files that the unit names, with the value that was wrong: its file
    and its name."""
    before = edit.failing_value or ""
    value = r"0+(\.0+)?" if not before.strip("0.") else before
    line = rf"^[[:space:]]*[A-Za-z_]\w*{ASSIGNED}{value}[[:space:]]*$"
    files = (
        f"systemctl cat {unit} | grep -oE '/[A-Za-z0-9_./@+-]+'"
        r" | grep -vE '^/(usr|bin|sbin|dev)/|/systemd/|\.(py|sh|js|rb|pl|jar)$' | sort -u"
    )
    shape = shlex.quote(r"s/^([^:]+):[[:space:]]*(\w+).*/\2 \1/")
    return f"grep -HsE {shlex.quote(line)} $({files}) /dev/null | sed -E {shape} | {_ONLY_ONE}"


def _kept_setting_source(path: str, unit: str) -> str:
    """The only setting that the last kept copy of a file of the service has and the file lacks."""
    file, folders = shlex.quote(path), " ".join(BACKUP_FOLDERS)
    copy = f"grep -rlsxFf {file} {folders} | grep -F {unit} | sort | tail -n 1"
    lines = r"grep -E '^[A-Za-z_]\w*=' | sed 's/=/ = /'"
    return f"grep -hvxFf {file} $({copy}) /dev/null | {lines} | {_ONLY_ONE}"


def _link_sources(file: FixedFile) -> list[str]:
    """Return what it names now, and what else it could name."""
    folder = shlex.quote(file.link.rpartition("/")[0] or "/")
    return [f"readlink {shlex.quote(file.path)}", f"ls -d {folder}/*"]


def _value_sources(edit: ValueEdit) -> list[str]:
    """The line itself, and copies of the file from before."""
    end = r"\b" if edit.name[-1:].isalnum() else ""
    path = shlex.quote(edit.path)
    line = shlex.quote(f"^[[:space:]]*{re.escape(edit.name)}{end}")
    stem = shlex.quote(edit.path)
    copies = " ".join(f"{stem}{ending}" for ending in BACKUP_ENDINGS)
    folders = " ".join(BACKUP_FOLDERS)
    return [
        f"grep -E {line} {path}",
        f"grep -hsE {line} {copies}",
        f"grep -rhsE {line} {folders} | tail -n 1",
    ]


async def draft_from_fix(fix: PeopleFix, run_rehearsal: RunRehearsal) -> DistilledSkill:
    """Raises `DistillationError`, `CannotRepeatError`."""
    steps = [
        RunCommand(
            seq=1000 + number,
            command=each.command,
            undo=each.undo,
            changes=True,
            restarts=each.restarts,
        )
        for number, each in enumerate(repeated_commands(fix))
    ]
    if not steps:
        raise DistillationError("nothing was changed that a playbook can repeat")
    run_rehearsal = _with_undo_folder(run_rehearsal)
    looks = observation_commands(fix)
    seen = (await run_rehearsal(looks)).outputs
    before = _observed(looks, seen, fix)
    checks = [*_known_checks(fix, before), *_written_value_checks(fix)]
    contrasts = await compare_before_after(
        [*(each.command for each in before), *checks], steps, run_rehearsal
    )
    if any(_is_gone_after_fix(each, contrasts) for each in before):
        before = [each for each in before if not each.command.startswith(SERVICE_WORDS)]
    run = VerifiedRun(
        run=fix.details.run,
        facts=fix.details.facts,
        incident=fix.details.incident,
        checks_before=tuple(before),
        changes=tuple(steps),
        checks_after=tuple(
            RunCommand(seq=5000 + number, command=command, output="")
            for number, command in enumerate(checks)
        ),
        diagnosis=_diagnosis(fix, before),
        verified_by=fix.recovered,
        names=_setting_names(fix),
        symptoms=fix.symptoms,
    )
    return distill_steps(run, steps, contrasts)


def _is_gone_after_fix(look: RunCommand, contrasts: Sequence[RehearsalContrast]) -> bool:
    """Return whether the host itself shows what is wrong, and that it is right after the fix. Then
    nothing depends on what a service says: another one has other words."""
    if not look.command.endswith(_ONLY_ONE):
        return False
    return all(
        each.before[look.command].code == 0 and each.after[look.command].code != 0
        for each in contrasts
    )


def _setting_names(fix: PeopleFix) -> tuple[str, ...]:
    """Those that are one word in all commands."""
    names = [edit.name for each in fix.files for edit in value_edits(each) or ()]
    return tuple(dict.fromkeys(name for name in names if re.fullmatch(r"\w{3,}", name)))


def _observed(
    commands: Sequence[str], outputs: Sequence[CommandOutput], fix: PeopleFix
) -> list[RunCommand]:
    """Without copies of the file that do not have the value, and without lines of the log that
    have it: these may be from the time after the fix."""
    values = [edit.value for each in fix.files for edit in value_edits(each) or ()]
    found = []
    for number, (command, output) in enumerate(zip(commands, outputs, strict=False)):
        if command.endswith(_ONLY_ONE) and (output.code != 0 or not output.output.strip()):
            continue
        is_copy = command.startswith(("grep -hs", "grep -rhs"))
        if is_copy and not any(value in output.output for value in values):
            continue
        text = output.output
        if command.startswith("journalctl"):
            lines = [line for line in text.splitlines() if not _has_value(line, values)]
            text = "\n".join(lines)
        found.append(RunCommand(seq=number + 1, command=command, output=text, code=output.code))
    return found


def _has_value(line: str, values: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", line) for value in values)


def _known_checks(fix: PeopleFix, before: Sequence[RunCommand]) -> list[str]:
    """Checks whose numbers the alert or the host name: they then fit the next host as well."""
    known = "\n".join([fix.details.facts.combined_text, *(each.output for each in before)])
    return [
        each
        for each in fix.checks
        if all(number in known for number in re.findall(r"(?<=:)\d{2,5}\b", each))
    ]


def _written_value_checks(fix: PeopleFix) -> list[str]:
    """That the value stands in the file: the checks of the incident decide whether it helped."""
    return (
        [
            f"{_find_written(edit)} {shlex.quote(edit.path)}"
            for each in fix.files
            for edit in value_edits(each) or ()
            if len(edit.value) <= MAX_VALUE_CHARS
        ]
        + [
            f"stat -c '%u:%g' {shlex.quote(each.path)} | grep -qx {each.owner}"
            for each in fix.files
            if each.owner
        ]
        + [
            f'test "$(readlink {shlex.quote(each.path)})" = {shlex.quote(each.link)}'
            for each in fix.files
            if each.link
        ]
    )


def _find_written(edit: ValueEdit) -> str:
    if edit.has_absurd_value:
        return f"grep -qE {shlex.quote(f'^{edit.pattern}{edit.value}[[:space:]]*$')}"
    text = edit.moved_path[1] if edit.moved_path else (edit.key + edit.value).strip()
    return f"grep -qF {shlex.quote(text)}"


def _diagnosis(fix: PeopleFix, before: Sequence[RunCommand]) -> IncidentDiagnosed:
    """Its evidence are logs and states: a definition has words like `on-failure` as well."""
    definitions = ("systemctl cat", "systemctl show")
    evidence = [each.seq for each in before if not each.command.startswith(definitions)]
    details = fix.details
    edits = [edit for each in fix.files for edit in value_edits(each) or ()]
    what = fix.files[0].path if fix.files else ", ".join(fix.services)
    if edits:
        how = f"the setting {edits[0].name} in {what} was wrong or missing"
    elif fix.files and fix.files[0].link:
        how = f"the link {what} named {fix.files[0].failing_link or 'nothing'}"
    elif fix.files and fix.files[0].owner:
        how = f"the owner or mode of {what} was wrong"
    elif fix.files:
        how = f"{what} was missing or wrong"
    else:
        how = f"{what} did not run"
    return IncidentDiagnosed(
        run=details.run,
        incident=details.incident,
        verdict="fix",
        component=what,
        mechanism=how,
        value=(edits[0].failing_value or "") if edits else "",
        evidence=tuple(evidence),
        confidence=0.9,
    )


def _with_undo_folder(run_rehearsal: RunRehearsal) -> RunRehearsal:
    """In a rehearsal the folder for copies has no parameter yet."""

    async def run(commands: Sequence[str]) -> RehearsalResult:
        return await run_rehearsal([each.replace(KEPT, REHEARSAL_FOLDER) for each in commands])

    return run


def with_proof(skill: DistilledSkill, proof: Sequence[str]) -> DistilledSkill:
    """The draft with what the copies showed, for the person who reviews it."""
    lines = "\n".join(f"- {each}" for each in proof)
    return replace(skill, body=f"{skill.body}\n## Proof\n\n{lines}\n")
