"""A distilled run as files: playbook.yaml, SKILL.md and the case that it was written from."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hermes.core.messages import Value
from hermes.skills.distill.literals import DistilledParameter, insert_placeholders
from hermes.skills.distill.rehearsal import DiagnosticSign
from hermes.skills.distill.verified_run import DistillationError, RunCommand, VerifiedRun
from hermes.skills.format.skill_text import SkillText, render_skill_text
from hermes.skills.playbook.reader import PLAYBOOK_FILE, parse_playbook
from hermes.skills.playbook.schema import Playbook

MAX_CHECKS = 3
MAX_SKILL_NAME_CHARS = 48
_STOP_WORDS = (
    "the",
    "and",
    "for",
    "after",
    "with",
    "from",
    "that",
    "has",
    "was",
    "its",
    "not",
    "are",
)


class VerificationCheck(Value, kw_only=True, frozen=True):
    command: str
    contains: str = ""


class DistilledSkill(Value, kw_only=True, frozen=True):
    """A draft that is not on the disk yet."""

    name: str
    description: str
    body: str
    playbook: str
    """As YAML."""
    case: str
    """As JSON: the run it comes from."""
    tags: tuple[str, ...] = ()

    def parse(self) -> Playbook:
        found, problems = parse_playbook(self.playbook)
        if found is None:
            listed = "; ".join(str(each) for each in problems if each.fatal)
            raise DistillationError(f"no valid playbook came of it: {listed}")
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
    """What its steps run, by name: what somebody who takes it over has to allow."""
    parts = [part for step in playbook.steps for part in re.split(r"[;&|\n]+", step.command)]
    first = [re.match(r"\s*(?:\w+=\S*\s+)*([\w./-]+)", part) for part in parts]
    return sorted({found[1] for found in first if found})


def render_playbook(
    story: VerifiedRun,
    steps: Sequence[RunCommand],
    given: Sequence[DistilledParameter],
    signs: Sequence[DiagnosticSign],
    checks: Sequence[VerificationCheck],
    words: Sequence[str],
) -> str:
    names = StepNames()
    probes, sources = _render_probes(story, given, signs, names)
    parameters = {
        each.name: _render_parameter(each, sources) for each in given if each.source in sources
    }
    made = {
        "version": 1,
        "summary": _summarize(story),
        "signature": {"words": list(words), "probes": probes},
        **({"parameters": parameters} if parameters else {}),
        "steps": [_render_step(deed, given, names) for deed in steps],
        "verify": [_render_check(check, given, names) for check in checks],
    }
    return yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=96)


class StepNames:
    """One name each, made of the command's first words."""

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
    story: VerifiedRun,
    given: Sequence[DistilledParameter],
    signs: Sequence[DiagnosticSign],
    names: StepNames,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Looks that give a parameter or a sign, in the order of the run; each with its name."""
    signed = {sign.command: sign for sign in signs}
    sources: dict[str, str] = {"alert": "alert"}
    probes: list[dict[str, Any]] = []
    for look in story.checks_before:
        gives = any(each.source == look.command for each in given)
        if look.command in sources or not (gives or look.command in signed):
            continue
        command = insert_placeholders(
            look.command, [each for each in given if each.source in sources]
        )
        sources[look.command] = names.name_for(command)
        probe: dict[str, Any] = {"name": sources[look.command], "command": command}
        probes.append({**probe, "expect": _render_expectation(signed.get(look.command), look)})
    if not probes:
        raise DistillationError("no look of the run tells this trouble from another")
    return probes, sources


def _render_expectation(sign: DiagnosticSign | None, look: RunCommand) -> dict[str, Any]:
    if sign is not None and sign.pattern:
        return {"exit": None, "regex": sign.pattern}
    if sign is not None:
        return {"exit": sign.code}
    return {"exit": look.code}


def _render_parameter(given: DistilledParameter, sources: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"from": sources[given.source], "kind": given.kind}
    if given.labels:
        made["labels"] = list(given.labels)
    if given.pattern:
        made["pattern"] = given.pattern
    return made


def _render_step(
    deed: RunCommand, given: Sequence[DistilledParameter], names: StepNames
) -> dict[str, Any]:
    command = insert_placeholders(deed.command, given)
    step = {"name": names.name_for(command), "command": command}
    return {**step, "undo": insert_placeholders(deed.undo, given)} if deed.undo else step


def _render_check(
    check: VerificationCheck, given: Sequence[DistilledParameter], names: StepNames
) -> dict[str, Any]:
    expect: dict[str, Any] = {"exit": 0}
    if check.contains:
        expect["contains"] = check.contains
    command = insert_placeholders(check.command, given)
    return {
        "name": f"check-{names.name_for(command)}"[:48],
        "command": command,
        "expect": expect,
        "within": 10,
    }


def _summarize(story: VerifiedRun) -> str:
    diagnosis = story.diagnosis
    return (diagnosis.mechanism if diagnosis and diagnosis.mechanism else story.facts.title)[:200]


def build_skill_name(story: VerifiedRun, given: Sequence[DistilledParameter]) -> str:
    """Of what was wrong, without this case's own names."""
    text = _remove_values(f"{_summarize(story)} {story.facts.title}", given)
    found = re.findall(r"[a-z][a-z0-9]+", text.lower())
    words = [word for word in found if len(word) > 2 and word not in _STOP_WORDS]
    name = "-".join(dict.fromkeys(words))[:MAX_SKILL_NAME_CHARS].rstrip("-")
    return "-".join(name.split("-")[:5]) or "learned-fix"


def list_alert_phrases(story: VerifiedRun, given: Sequence[DistilledParameter]) -> list[str]:
    """How alerts of this kind speak."""
    texts = (story.facts.title, story.facts.text, _summarize(story))
    plain = [" ".join(_remove_values(text, given).split())[:200] for text in texts]
    return [text for text in dict.fromkeys(plain) if text]


def _remove_values(text: str, given: Sequence[DistilledParameter]) -> str:
    """Cut out what belongs to this case."""
    for one in sorted(given, key=lambda each: -len(each.value)):
        text = text.replace(one.value, " ")
    return re.sub(r"\S*\d\S*", " ", text)


def render_body(
    story: VerifiedRun, steps: Sequence[RunCommand], checks: Sequence[VerificationCheck]
) -> str:
    diagnosis = story.diagnosis
    cause = _summarize(story)
    ruled = "".join(f"- {each}\n" for each in diagnosis.ruled_out) if diagnosis else ""
    done = "\n".join(
        f"{number}. `{_one_line(deed.command)}`" for number, deed in enumerate(steps, 1)
    )
    looked = "\n".join(f"- `{_one_line(check.command)}`" for check in checks)
    return f"""# {cause}

## When to use

An alert like "{story.facts.title}", when the probes of the playbook find this cause.

## Early warning signs

The lines that the playbook's probes look for appear before the alert does.

## Checks

{looked}

## Playbook

`playbook.yaml` does this without a model, with the names of the case at hand. In the run it comes
from it was:

{done}

## Known false positives

Alerts with the same words and another cause: the probes decline then. Do not go on by hand.
{ruled}"""


def render_case(
    story: VerifiedRun, steps: Sequence[RunCommand], dropped: Sequence[RunCommand]
) -> str:
    made = {
        "run": story.run,
        "incident": story.incident,
        "alert": story.facts.title,
        "verified_by": story.verified_by,
        "steps": [deed.command for deed in steps],
        "did_not_matter": [deed.command for deed in dropped],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


def _one_line(command: str) -> str:
    return " ".join(command.split()).replace("`", "'")[:300]
