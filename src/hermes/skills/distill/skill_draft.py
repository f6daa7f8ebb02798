"""Renders a distilled run as files: playbook.yaml, SKILL.md and the original incident."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.messages import Value
from hermes.plumbing.yaml_document import dump_yaml
from hermes.skills.distill.literals import DistilledParameter, insert_placeholders
from hermes.skills.distill.rehearsal import DiagnosticSign
from hermes.skills.distill.verified_run import DistillationError, RunCommand, VerifiedRun
from hermes.skills.format.skill_text import SkillText, render_skill_text
from hermes.skills.playbook.reader import PLAYBOOK_FILE, parse_playbook
from hermes.skills.playbook.schema import Playbook

MAX_CHECKS = 3
MAX_SKILL_NAME_CHARS = 48
_STOP_WORDS = frozenset(
    ["the", "and", "for", "after", "with", "from", "that", "has", "was", "its", "not", "are"]
)


class VerificationCheck(Value, kw_only=True, frozen=True):
    command: str
    contains: str = ""


class DistilledSkill(Value, kw_only=True, frozen=True):
    """A draft that is not written to disk yet."""

    name: str
    description: str
    body: str
    playbook: str
    """As YAML."""
    case: str
    """As JSON: the run it was distilled from."""
    tags: tuple[str, ...] = ()

    def parse(self) -> Playbook:
        found, problems = parse_playbook(self.playbook)
        if found is None:
            listed = "; ".join(str(each) for each in problems if each.fatal)
            raise DistillationError(f"the distilled playbook is not valid: {listed}")
        return found


def write_distilled_skill(draft: DistilledSkill, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {
        "category": "learned",
        "tags": ", ".join(draft.tags),
        "capabilities": f"commands: {', '.join(list_step_programs(draft.parse()))}",
    }
    text = SkillText(
        name=folder.name,
        description=draft.description,
        body=draft.body,
        metadata={key: value for key, value in metadata.items() if value},
    )
    (folder / "SKILL.md").write_text(render_skill_text(text), encoding="utf-8")
    (folder / PLAYBOOK_FILE).write_text(draft.playbook, encoding="utf-8")
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / "origin.json").write_text(draft.case, encoding="utf-8")


def list_step_programs(playbook: Playbook) -> list[str]:
    """The programs that its steps run."""
    parts = [part for step in playbook.steps for part in re.split(r"[;&|\n]+", step.command)]
    first = [re.match(r"\s*(?:\w+=\S*\s+)*([\w./-]+)", part) for part in parts]
    return sorted({found[1] for found in first if found})


def render_playbook(
    run: VerifiedRun,
    steps: Sequence[RunCommand],
    parameters: Sequence[DistilledParameter],
    signs: Sequence[DiagnosticSign],
    checks: Sequence[VerificationCheck],
    words: Sequence[str],
) -> str:
    names = StepNames()
    probes, sources = _render_probes(run, parameters, signs, names)
    rendered = {
        each.name: _render_parameter(each, sources) for each in parameters if each.source in sources
    }
    data = {
        "version": 1,
        "summary": _summarize(run),
        "signature": {"words": list(words), "probes": probes},
        **({"parameters": rendered} if rendered else {}),
        "steps": [_render_step(step, parameters, names) for step in steps],
        "verify": [_render_check(check, parameters, names) for check in checks],
    }
    return dump_yaml(data)


class StepNames:
    """Gives each command a unique name, made of its first words."""

    def __init__(self) -> None:
        self._taken: set[str] = {"alert"}

    def name_for(self, command: str) -> str:
        plain = re.sub(r"\{\{.*?\}\}|'[^']*'|\"[^\"]*\"", " ", command)
        words = re.findall(r"(?<![\w/.-])[a-z][a-z0-9-]*", plain.lower())[:3]
        stem = "-".join(words)[:36].strip("-") or "step"
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}-{number}", number + 1
        self._taken.add(name)
        return name


def _render_probes(
    run: VerifiedRun,
    parameters: Sequence[DistilledParameter],
    signs: Sequence[DiagnosticSign],
    names: StepNames,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Checks that give a parameter or a sign, in the order of the run, and their names."""
    signed = {sign.command: sign for sign in signs}
    sources: dict[str, str] = {"alert": "alert"}
    probes: list[dict[str, Any]] = []
    for check in run.checks_before:
        gives = any(each.source == check.command for each in parameters)
        if check.command in sources or not (gives or check.command in signed):
            continue
        command = insert_placeholders(
            check.command, [each for each in parameters if each.source in sources]
        )
        sources[check.command] = names.name_for(command)
        probe: dict[str, Any] = {"name": sources[check.command], "command": command}
        probes.append({**probe, "expect": _render_expectation(signed.get(check.command), check)})
    if not probes:
        raise DistillationError("no check of the run distinguishes this problem from another")
    return probes, sources


def _render_expectation(sign: DiagnosticSign | None, check: RunCommand) -> dict[str, Any]:
    if sign is not None and sign.pattern:
        return {"exit": None, "regex": sign.pattern}
    if sign is not None:
        return {"exit": sign.code}
    return {"exit": check.code}


def _render_parameter(parameter: DistilledParameter, sources: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {"from": sources[parameter.source], "kind": parameter.kind}
    if parameter.labels:
        data["labels"] = list(parameter.labels)
    if parameter.pattern:
        data["pattern"] = parameter.pattern
    return data


def _render_step(
    change: RunCommand, parameters: Sequence[DistilledParameter], names: StepNames
) -> dict[str, Any]:
    command = insert_placeholders(change.command, parameters)
    step = {"name": names.name_for(command), "command": command}
    return {**step, "undo": insert_placeholders(change.undo, parameters)} if change.undo else step


def _render_check(
    check: VerificationCheck, parameters: Sequence[DistilledParameter], names: StepNames
) -> dict[str, Any]:
    expect: dict[str, Any] = {"exit": 0}
    if check.contains:
        expect["contains"] = check.contains
    command = insert_placeholders(check.command, parameters)
    return {
        "name": f"check-{names.name_for(command)}"[:48],
        "command": command,
        "expect": expect,
        "within": 10,
    }


def _summarize(run: VerifiedRun) -> str:
    diagnosis = run.diagnosis
    return (diagnosis.mechanism if diagnosis and diagnosis.mechanism else run.facts.title)[:200]


def build_skill_name(run: VerifiedRun, parameters: Sequence[DistilledParameter]) -> str:
    """A name from the cause and the alert, without the values of this incident."""
    text = _remove_values(f"{_summarize(run)} {run.facts.title}", parameters)
    found = re.findall(r"[a-z][a-z0-9]+", text.lower())
    words = [word for word in found if len(word) > 2 and word not in _STOP_WORDS]
    name = "-".join(dict.fromkeys(words))[:MAX_SKILL_NAME_CHARS].rstrip("-")
    return "-".join(name.split("-")[:5]) or "learned-fix"


def list_alert_phrases(run: VerifiedRun, parameters: Sequence[DistilledParameter]) -> list[str]:
    """Texts of the alert and the cause, without the values of this incident."""
    texts = (run.facts.title, run.facts.text, _summarize(run))
    plain = [" ".join(_remove_values(text, parameters).split())[:200] for text in texts]
    return [text for text in dict.fromkeys(plain) if text]


def _remove_values(text: str, parameters: Sequence[DistilledParameter]) -> str:
    """Removes the values of this incident."""
    for one in sorted(parameters, key=lambda each: -len(each.value)):
        text = text.replace(one.value, " ")
    return re.sub(r"\S*\d\S*", " ", text)


def render_body(
    run: VerifiedRun, steps: Sequence[RunCommand], checks: Sequence[VerificationCheck]
) -> str:
    diagnosis = run.diagnosis
    cause = _summarize(run)
    false_positives = "".join(f"- {each}\n" for each in diagnosis.ruled_out) if diagnosis else ""
    step_lines = "\n".join(
        f"{number}. `{_one_line(step.command)}`" for number, step in enumerate(steps, 1)
    )
    check_lines = "\n".join(f"- `{_one_line(check.command)}`" for check in checks)
    return f"""# {cause}

## When to use

An alert like "{run.facts.title}", when the probes of the playbook find this cause.

## Early warning signs

The lines that the probes of the playbook search for appear before the alert.

## Checks

{check_lines}

## Playbook

`playbook.yaml` does this without a model, with the names of the current incident. In the original
run the steps were:

{step_lines}

## Known false positives

Alerts with the same words and another cause: the probes then do not match. Do not continue by hand.
{false_positives}"""


def render_case(
    run: VerifiedRun, steps: Sequence[RunCommand], dropped: Sequence[RunCommand]
) -> str:
    data = {
        "run": run.run,
        "incident": run.incident,
        "alert": run.facts.title,
        "verified_by": run.verified_by,
        "steps": [step.command for step in steps],
        "did_not_matter": [step.command for step in dropped],
    }
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def _one_line(command: str) -> str:
    return " ".join(command.split()).replace("`", "'")[:300]
