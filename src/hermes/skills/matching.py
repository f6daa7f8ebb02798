"""Which skill an incident, or a task, is about: by words that few skills share.

Words are stems; a skill's signature weighs more than its name, and its name more than what it says
about itself. Below a floor there is no answer: a wrong skill costs more than none.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import anyio
from anyio import to_thread

from hermes.core.messages import Value
from hermes.skills.library import Skill
from hermes.skills.playbook.facts import Facts

FLOOR = 0.30
"""Share of what a query says that a skill must account for."""
AGREE, FEW = 2, 2
"""Terms that must agree, unless hardly any were said."""
SIGNATURE, NAME, TAGS, DESCRIPTION = 1.0, 0.8, 0.7, 0.45
_PHRASE = 1.5
_WORD = re.compile(r"[a-z][a-z0-9]+|[0-9]{3}(?![0-9])")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOISE = re.compile(
    r"""[\w.-]+:\d+ | https?://\S+ | /[\w./-]+ | \b[0-9a-f]{8,}\b | \b[\w-]+-\d+\b | @[\w.-]+
    | \b\d+\b(?!\d)""",
    re.VERBOSE,
)
_COMMON_WORDS = """
a about after all alert alerts an and any are as at be been being below but by can check checks
could critical do does down error errors failed failing failure fails firing for from had has
have host hosts how if in instance into is it its job last minute minutes more no not now of off
on one or our out over p0 p1 p2 p3 page paging problem prod production report reports request
requests sec second seconds see seems seen server service services severity since so some
status than that the their then there they this to too up us use user users very warning was
we were what when which while who why will with would you
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class Match(Value, frozen=True):
    skill: str
    score: float
    """0 to 1: how much of what was said it accounts for."""
    alert: bool = False
    """One of its alert patterns was found."""


class Matcher:
    """An index over the skills of a library, made once."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._weights: list[dict[str, float]] = [_weights(skill) for skill in self._skills]
        self._patterns = [_patterns(skill) for skill in self._skills]
        spread = Counter(word for weights in self._weights for word in weights)
        many = len(self._skills) + 1
        self._rarity = {word: math.log(1 + many / count) for word, count in spread.items()}
        self._unknown = math.log(1 + many)
        self._having: dict[str, list[int]] = {}
        for number, weights in enumerate(self._weights):
            for word in weights:
                self._having.setdefault(word, []).append(number)

    def rank(self, words: str, *, limit: int = 10, floor: float = FLOOR) -> list[Match]:
        """Best first; nothing below the floor."""
        asked = Counter(terms(words))
        total = sum(min(self._rarity.get(term, 0.5 * self._unknown), 6.0) for term in asked)
        scores: dict[int, float] = {}
        shared: Counter[int] = Counter()
        for term in asked:
            for number in self._having.get(term, ()):
                gain = self._rarity[term] * self._weights[number][term]
                scores[number] = scores.get(number, 0.0) + gain
                shared[number] += 1
        found = []
        for number, score in scores.items():
            hit = any(pattern.search(words) for pattern in self._patterns[number])
            share = min(1.0, score / total) if total else 0.0
            share = min(1.0, share + 0.25) if hit else share
            chance = floor and len(asked) > FEW and shared[number] < AGREE  # one word is no match
            if share >= floor and not chance:
                found.append(Match(self._skills[number].name, round(share, 4), hit))
        return sorted(found, key=lambda match: (-match.score, match.skill))[:limit]

    def candidates(self, facts: Facts) -> list[Skill]:
        """Trusted playbooks that this alert may be about, best first.

        One whose own patterns speak against the alert is out. The rest may look at the host: their
        probes say more than an alert's words, and change nothing.
        """
        words = facts.words
        scores = {match.skill: match.score for match in self.rank(words, limit=1000, floor=0.0)}
        fit = [
            skill
            for skill, patterns in zip(self._skills, self._patterns, strict=True)
            if skill.state == "trusted"
            and skill.playbook is not None
            and (not patterns or any(pattern.search(words) for pattern in patterns))
        ]
        return sorted(fit, key=lambda skill: (-scores.get(skill.name, 0.0), skill.name))


class Index:
    """The matcher of a library as it is: made beside the loop, and anew only when it is another."""

    def __init__(self) -> None:
        self._making = anyio.Lock()
        self._matcher = Matcher(())
        self._known: tuple[tuple[str, str, str], ...] = ()

    async def matcher(self, skills: Sequence[Skill]) -> Matcher:
        async with self._making:
            known = tuple((skill.name, skill.state, skill.digest) for skill in skills)
            if known != self._known:
                self._matcher = await to_thread.run_sync(Matcher, skills)
                self._known = known
            return self._matcher


def terms(text: str) -> list[str]:
    """Stems of the words that tell something, and pairs of neighbours."""
    text = _CAMEL.sub(" ", text)
    plain = _NOISE.sub(" ", text.lower().replace("_", " ").replace("'", ""))
    stems = [stem(word) for word in _WORD.findall(plain) if word not in _COMMON]
    pairs = [f"{one} {two}" for one, two in pairwise(stems)]
    return [*stems, *pairs]


def stem(word: str) -> str:
    """Enough for matching: expires, expired and expiry meet."""
    for ending in ("ations", "ation", "ingly", "ings", "ing", "iness", "edly", "ies", "ied", "ers",
                   "ed", "es", "er", "ly", "s", "y", "e"):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _weights(skill: Skill) -> dict[str, float]:
    playbook = skill.playbook
    sources: Sequence[tuple[str, float]] = (
        (skill.description, DESCRIPTION),
        (" ".join(skill.text.tags), TAGS),
        (skill.name.replace("-", " "), NAME),
        *((words, SIGNATURE) for words in (playbook.signature.words if playbook else ())),
    )
    found: dict[str, float] = {}
    for text, weight in sources:
        for term in terms(text):
            gain = weight * _PHRASE if " " in term else weight
            found[term] = max(found.get(term, 0.0), gain)
    return found


def _patterns(skill: Skill) -> list[re.Pattern[str]]:
    playbook = skill.playbook
    patterns = playbook.signature.alert if playbook else ()
    return [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns]
