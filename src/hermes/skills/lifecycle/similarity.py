"""Finds an existing skill that a new one repeats, and extends it."""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.plumbing.yaml_document import dump_yaml
from hermes.skills.history import copy_skill, swap_in
from hermes.skills.library import Skill
from hermes.skills.matching import extract_terms
from hermes.skills.playbook.reader import PLAYBOOK_FILE, parse_playbook
from hermes.skills.playbook.schema import Playbook

MIN_SIMILARITY = 0.6
"""From this similarity on, the old skill is extended."""
MAX_SIGNATURE_WORDS = 40
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"|\b\d+\b|/[\w./{}-]+")


class SimilarSkill(Value, frozen=True):
    skill: str
    score: float
    """0 to 1: the mean of the overlaps in purpose and in commands."""


def find_most_similar(new: Skill, known: Sequence[Skill]) -> SimilarSkill | None:
    """The most similar skill that is not retired."""
    scores = [
        SimilarSkill(each.name, round(compute_similarity(new, each), 4))
        for each in known
        if each.name != new.name and each.state != "retired"
    ]
    best = max(scores, key=lambda each: each.score, default=None)
    return best if best is not None and best.score >= MIN_SIMILARITY else None


def compute_similarity(one: Skill, other: Skill) -> float:
    purpose = _overlap(_purpose_terms(one), _purpose_terms(other))
    if one.playbook is None or other.playbook is None:
        return purpose if (one.playbook is None) == (other.playbook is None) else purpose / 2
    commands = map(count_changing_commands, (one.playbook, other.playbook))
    return (purpose + _overlap(*commands)) / 2


def count_changing_commands(playbook: Playbook) -> Counter[str]:
    """The commands of its changing steps, without their literals."""
    changing = (step.command for step in playbook.steps if step.risk != "read")
    plain = (_LITERAL.sub("·", _PLACEHOLDER.sub("·", command)) for command in changing)
    return Counter(" ".join(command.split()) for command in plain)


def compute_text_similarity(one: str, other: str) -> float:
    """The share of common terms in all terms of two texts."""
    ours, theirs = set(extract_terms(one)), set(extract_terms(other))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0


def _purpose_terms(skill: Skill) -> Counter[str]:
    words = " ".join(skill.playbook.signature.words) if skill.playbook else ""
    text = f"{skill.name.replace('-', ' ')} {skill.description} {words}"
    return Counter({term for term in extract_terms(text) if " " not in term})


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    """Shared terms over all, or 0.8 of the shared part of the smaller one."""
    shared = sum((one & other).values())
    if not shared:
        return 0.0
    return max(shared / sum((one | other).values()), 0.8 * shared / min(one.total(), other.total()))


def extend_skill(old: Skill, new: Path, target: Path) -> None:
    """Writes the old skill with the additions of the new one to `target`; deletes `new`.

    With the same changing commands, the old playbook gets the alert words of both; otherwise the
    new playbook does, and the old version stays in use until the evaluation is passed.
    """
    extended = target.with_name(f".{target.name}.extended")
    shutil.rmtree(extended, ignore_errors=True)
    copy_skill(old.folder, extended)
    text = (new / PLAYBOOK_FILE).read_text("utf-8") if (new / PLAYBOOK_FILE).is_file() else ""
    playbook, _ = parse_playbook(text) if text else (None, [])
    if playbook is not None and old.playbook is not None:
        same = count_changing_commands(playbook) == count_changing_commands(old.playbook)
        both = (old.playbook, playbook) if same else (playbook, old.playbook)
        plain = msgspec.to_builtins(_merge_signature(*both), str_keys=True)
        (extended / PLAYBOOK_FILE).write_text(dump_yaml(plain), encoding="utf-8")
    _add_case(new, extended)
    shutil.rmtree(new, ignore_errors=True)
    swap_in(extended, target)


def _merge_signature(kept: Playbook, other: Playbook) -> Playbook:
    one, two = kept.signature, other.signature
    words = tuple(dict.fromkeys((*one.words, *two.words)))[:MAX_SIGNATURE_WORDS]
    alert = tuple(dict.fromkeys((*one.alert, *two.alert)))
    if not (one.alert and two.alert):
        alert = ()  # one of them applies to every alert
    return replace(kept, signature=replace(one, words=words, alert=alert))


def _add_case(new: Path, target: Path) -> None:
    cases = target / "cases"
    cases.mkdir(exist_ok=True)
    number = len(list(cases.iterdir())) + 1
    origin = new / "cases" / "origin.json"
    if origin.is_file():
        shutil.copy2(origin, cases / f"extended-{number}.json")
