"""A distilled run as files: playbook.yaml, SKILL.md and the case that it was written from."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hermes.core.messages import Value
from hermes.skills.distill.deeds import Deed, NotDistilled, Story
from hermes.skills.distill.evidence import Sign
from hermes.skills.distill.literals import Given, put_in
from hermes.skills.format.skill_text import SkillText, write_skill
from hermes.skills.playbook.reading import FILE, read_playbook
from hermes.skills.playbook.schema import Playbook

MOST_CHECKS = 3
LONGEST_NAME = 48
_SMALL = ("the", "and", "for", "after", "with", "from", "that", "has", "was", "its", "not", "are")


class Check(Value, kw_only=True, frozen=True):
    command: str
    contains: str = ""


class Distilled(Value, kw_only=True, frozen=True):
    """A draft that is not on the disk yet."""

    name: str
    description: str
    body: str
    playbook: str
    """As YAML."""
    case: str
    """As JSON: the run it comes from."""
    tags: tuple[str, ...] = ()

    def parsed(self) -> Playbook:
        found, problems = read_playbook(self.playbook)
        if found is None:
            listed = "; ".join(str(each) for each in problems if each.fatal)
            raise NotDistilled(f"no valid playbook came of it: {listed}")
        return found


def write_folder(draft: Distilled, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {
        "category": "learned",
        "tags": ", ".join(draft.tags),
        "capabilities": f"commands: {', '.join(programs(draft.parsed()))}",
    }
    text = SkillText(
        name=folder.name,
        description=draft.description,
        body=draft.body,
        metadata={key: value for key, value in metadata.items() if value},
    )
    (folder / "SKILL.md").write_text(write_skill(text), encoding="utf-8")
    (folder / FILE).write_text(draft.playbook, encoding="utf-8")
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / "origin.json").write_text(draft.case, encoding="utf-8")


def programs(playbook: Playbook) -> list[str]:
    """What its steps run, by name: what somebody who takes it over has to allow."""
    parts = [part for step in playbook.steps for part in re.split(r"[;&|\n]+", step.command)]
    first = [re.match(r"\s*(?:\w+=\S*\s+)*([\w./-]+)", part) for part in parts]
    return sorted({found[1] for found in first if found})


def playbook_text(
    story: Story,
    steps: Sequence[Deed],
    given: Sequence[Given],
    signs: Sequence[Sign],
    checks: Sequence[Check],
    words: Sequence[str],
) -> str:
    names = Names()
    probes, sources = _probes(story, given, signs, names)
    parameters = {each.name: _parameter(each, sources) for each in given if each.source in sources}
    made = {
        "version": 1,
        "summary": _summary(story),
        "signature": {"words": list(words), "probes": probes},
        **({"parameters": parameters} if parameters else {}),
        "steps": [_step(deed, given, names) for deed in steps],
        "verify": [_check(check, given, names) for check in checks],
    }
    return yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=96)


class Names:
    """One name each, made of the command's first words."""

    def __init__(self) -> None:
        self._taken: set[str] = {"alert"}

    def of(self, command: str) -> str:
        plain = re.sub(r"\{\{.*?\}\}|'[^']*'|\"[^\"]*\"", " ", command)
        words = re.findall(r"(?<![\w/.-])[a-z][a-z0-9-]*", plain.lower())[:3]
        stem = "-".join(words)[:36].strip("-") or "step"
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}-{number}", number + 1
        self._taken.add(name)
        return name


def _probes(
    story: Story, given: Sequence[Given], signs: Sequence[Sign], names: Names
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Looks that give a parameter or a sign, in the order of the run; each with its name."""
    signed = {sign.command: sign for sign in signs}
    sources: dict[str, str] = {"alert": "alert"}
    probes: list[dict[str, Any]] = []
    for look in story.before:
        gives = any(each.source == look.command for each in given)
        if look.command in sources or not (gives or look.command in signed):
            continue
        command = put_in(look.command, [each for each in given if each.source in sources])
        sources[look.command] = names.of(command)
        probe: dict[str, Any] = {"name": sources[look.command], "command": command}
        probes.append({**probe, "expect": _expected(signed.get(look.command), look)})
    if not probes:
        raise NotDistilled("no look of the run tells this trouble from another")
    return probes, sources


def _expected(sign: Sign | None, look: Deed) -> dict[str, Any]:
    if sign is not None and sign.pattern:
        return {"exit": None, "regex": sign.pattern}
    if sign is not None:
        return {"exit": sign.code}
    return {"exit": look.code}


def _parameter(given: Given, sources: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"from": sources[given.source], "kind": given.kind}
    if given.labels:
        made["labels"] = list(given.labels)
    if given.pattern:
        made["pattern"] = given.pattern
    return made


def _step(deed: Deed, given: Sequence[Given], names: Names) -> dict[str, Any]:
    command = put_in(deed.command, given)
    step = {"name": names.of(command), "command": command}
    return {**step, "undo": put_in(deed.undo, given)} if deed.undo else step


def _check(check: Check, given: Sequence[Given], names: Names) -> dict[str, Any]:
    expect: dict[str, Any] = {"exit": 0}
    if check.contains:
        expect["contains"] = check.contains
    command = put_in(check.command, given)
    return {
        "name": f"check-{names.of(command)}"[:48],
        "command": command,
        "expect": expect,
        "within": 10,
    }


def _summary(story: Story) -> str:
    diagnosis = story.diagnosis
    return (diagnosis.mechanism if diagnosis and diagnosis.mechanism else story.facts.title)[:200]


def skill_name(story: Story, given: Sequence[Given]) -> str:
    """Of what was wrong, without this case's own names."""
    text = _without(f"{_summary(story)} {story.facts.title}", given)
    found = re.findall(r"[a-z][a-z0-9]+", text.lower())
    words = [word for word in found if len(word) > 2 and word not in _SMALL]
    name = "-".join(dict.fromkeys(words))[:LONGEST_NAME].rstrip("-")
    return "-".join(name.split("-")[:5]) or "learned-fix"


def told_words(story: Story, given: Sequence[Given]) -> list[str]:
    """How alerts of this kind speak."""
    texts = (story.facts.title, story.facts.text, _summary(story))
    plain = [" ".join(_without(text, given).split())[:200] for text in texts]
    return [text for text in dict.fromkeys(plain) if text]


def _without(text: str, given: Sequence[Given]) -> str:
    """Cut out what belongs to this case."""
    for one in sorted(given, key=lambda each: -len(each.value)):
        text = text.replace(one.value, " ")
    return re.sub(r"\S*\d\S*", " ", text)


def body_of(story: Story, steps: Sequence[Deed], checks: Sequence[Check]) -> str:
    diagnosis = story.diagnosis
    cause = _summary(story)
    ruled = "".join(f"- {each}\n" for each in diagnosis.ruled_out) if diagnosis else ""
    done = "\n".join(f"{number}. `{_line(deed.command)}`" for number, deed in enumerate(steps, 1))
    looked = "\n".join(f"- `{_line(check.command)}`" for check in checks)
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


def case_of(story: Story, steps: Sequence[Deed], dropped: Sequence[Deed]) -> str:
    made = {
        "run": story.run,
        "incident": story.incident,
        "alert": story.facts.title,
        "verified_by": story.checks,
        "steps": [deed.command for deed in steps],
        "did_not_matter": [deed.command for deed in dropped],
    }
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


def _line(command: str) -> str:
    return " ".join(command.split()).replace("`", "'")[:300]
