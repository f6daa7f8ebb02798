"""Whether a new skill is an old one in other words: then the old one is extended."""

import re
from collections import Counter
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.skills.library import Skill
from hermes.skills.matching import terms
from hermes.skills.playbook.schema import Playbook

SAME = 0.6
"""Likeness from which on two skills are one."""
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"|\b\d+\b|/[\w./{}-]+")


class Likeness(Value, frozen=True):
    skill: str
    score: float
    """0 to 1: the mean of what they are for and what they do."""


def nearest(new: Skill, known: Sequence[Skill], *, floor: float = SAME) -> Likeness | None:
    """The one that says and does most nearly the same, of those in use."""
    scores = [
        Likeness(each.name, round(likeness(new, each), 4))
        for each in known
        if each.name != new.name and each.state != "retired"
    ]
    best = max(scores, key=lambda each: each.score, default=None)
    return best if best is not None and best.score >= floor else None


def likeness(one: Skill, other: Skill) -> float:
    purpose = _overlap(_purpose(one), _purpose(other))
    if one.playbook is None or other.playbook is None:
        return purpose if (one.playbook is None) == (other.playbook is None) else purpose / 2
    return (purpose + _overlap(deeds(one.playbook), deeds(other.playbook))) / 2


def deeds(playbook: Playbook) -> Counter[str]:
    """Its changing steps without their literals: what is done, not to what."""
    return Counter(shape(step.command) for step in playbook.steps if step.risk != "read")


def shape(command: str) -> str:
    plain = _LITERAL.sub("·", _PLACEHOLDER.sub("·", command))
    return " ".join(plain.split())


def alike(one: str, other: str) -> float:
    """Two texts by the words they share, of all they have."""
    ours, theirs = set(terms(one)), set(terms(other))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0


def _purpose(skill: Skill) -> Counter[str]:
    words = " ".join(skill.playbook.signature.words) if skill.playbook else ""
    text = f"{skill.name.replace('-', ' ')} {skill.description} {words}"
    return Counter({term for term in terms(text) if " " not in term})


def _overlap(one: Counter[str], other: Counter[str]) -> float:
    """Shared over all; with the smaller one's share where it is part of the larger."""
    shared = sum((one & other).values())
    if not shared:
        return 0.0
    return max(shared / sum((one | other).values()), 0.8 * shared / min(one.total(), other.total()))
