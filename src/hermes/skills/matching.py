"""Ranks skills for an incident or a task by rare shared terms.

Words are reduced to stems. The signature of a skill weighs more than its name, and its name more
than its description. Below a minimum score there is no match: a wrong skill costs more than none.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise

import anyio
from anyio import to_thread

from hermes.core.errors import SettingsError, ToolError
from hermes.core.incident import AlertFacts
from hermes.core.knowledge import SkillCard
from hermes.core.messages import Value
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.playbook.reader import PLAYBOOK_FILE

MIN_MATCH_SCORE = 0.30
"""Share of the weight of the query terms that a skill must have."""
MIN_SHARED_TERMS, SHORT_QUERY_TERMS = 2, 2
"""Terms that must be shared, unless the query has at most `SHORT_QUERY_TERMS`."""
SIGNATURE_WEIGHT, NAME_WEIGHT, TAGS_WEIGHT, DESCRIPTION_WEIGHT = 1.0, 0.8, 0.7, 0.45
_PHRASE_FACTOR = 1.5
_QUERY_WORD = re.compile(r"[a-z][a-z0-9]+|[0-9]{3}(?![0-9])")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDENTIFIER_NOISE = re.compile(
    r"""[\w.-]+:\d+ | https?://\S+ | /[\w./-]+ | \b[0-9a-f]{8,}\b | \b[\w-]+-\d+\b | @[\w.-]+
    | \b\d+\b(?!\d)""",
    re.VERBOSE,
)
_STOP_WORD_LIST = """
a about after all alert alerts an and any are as at be been being below but by can check checks
could critical do does down error errors failed failing failure fails firing for from had has
have host hosts how if in instance into is it its job last minute minutes more no not now of off
on one or our out over p0 p1 p2 p3 page paging problem prod production report reports request
requests sec second seconds see seems seen server service services severity since so some
status than that the their then there they this to too up us use user users very warning was
we were what when which while who why will with would you
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())


class SkillMatch(Value, frozen=True):
    skill: str
    score: float
    """0 to 1: the share of the query that the skill covers."""
    alert: bool = False
    """One of its alert patterns matches."""


class SkillMatcher:
    """An index over the skills of a library."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._weights: list[dict[str, float]] = [_term_weights(skill) for skill in self._skills]
        self._patterns = [
            [
                re.compile(each, re.IGNORECASE | re.MULTILINE)
                for each in skill.playbook.signature.alert
            ]
            if skill.playbook
            else []
            for skill in self._skills
        ]
        counts = Counter(word for weights in self._weights for word in weights)
        total = len(self._skills) + 1
        self._rarity = {word: math.log(1 + total / count) for word, count in counts.items()}
        self._unknown_term_rarity = math.log(1 + total)
        self._skills_by_term: dict[str, list[int]] = {}
        for number, weights in enumerate(self._weights):
            for word in weights:
                self._skills_by_term.setdefault(word, []).append(number)

    def rank(
        self, query: str, *, limit: int = 10, min_score: float = MIN_MATCH_SCORE
    ) -> list[SkillMatch]:
        """Best first; nothing below `min_score`."""
        terms = Counter(extract_terms(query))
        total = sum(
            min(self._rarity.get(term, 0.5 * self._unknown_term_rarity), 6.0) for term in terms
        )
        scores: dict[int, float] = {}
        shared: Counter[int] = Counter()
        for term in terms:
            for number in self._skills_by_term.get(term, ()):
                gain = self._rarity[term] * self._weights[number][term]
                scores[number] = scores.get(number, 0.0) + gain
                shared[number] += 1
        found = []
        for number, score in scores.items():
            alert_matches = any(pattern.search(query) for pattern in self._patterns[number])
            share = min(1.0, score / total) if total else 0.0
            share = min(1.0, share + 0.25) if alert_matches else share
            too_few = (
                min_score and len(terms) > SHORT_QUERY_TERMS and shared[number] < MIN_SHARED_TERMS
            )  # a single shared word is not enough
            if share >= min_score and not too_few:
                found.append(SkillMatch(self._skills[number].name, round(share, 4), alert_matches))
        return sorted(found, key=lambda match: (-match.score, match.skill))[:limit]

    def candidates(self, facts: AlertFacts) -> list[Skill]:
        """Trusted playbooks that this alert may be about, best first.

        A playbook with alert patterns must match the alert. The others stay: their probes tell more
        than the words of an alert, and change nothing.
        """
        words = facts.combined_text
        scores = {match.skill: match.score for match in self.rank(words, limit=1000, min_score=0.0)}
        fit = [
            skill
            for skill, patterns in zip(self._skills, self._patterns, strict=True)
            if skill.state == "trusted"
            and skill.playbook is not None
            and (not patterns or any(pattern.search(words) for pattern in patterns))
        ]
        return sorted(fit, key=lambda skill: (-scores.get(skill.name, 0.0), skill.name))


class SkillMatcherCache:
    """Builds the matcher in a thread, and again only when the skills change."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._matcher = SkillMatcher(())
        self._known: tuple[tuple[str, str, str], ...] = ()

    async def matcher(self, skills: Sequence[Skill]) -> SkillMatcher:
        async with self._lock:
            known = tuple((skill.name, skill.state, skill.digest) for skill in skills)
            if known != self._known:
                self._matcher = await to_thread.run_sync(SkillMatcher, skills)
                self._known = known
            return self._matcher


def extract_terms(text: str) -> list[str]:
    """Stems of all words that are not stop words, and pairs of neighbouring stems."""
    text = _CAMEL_CASE_BOUNDARY.sub(" ", text)
    plain = _IDENTIFIER_NOISE.sub(" ", text.lower().replace("_", " ").replace("'", ""))
    stems = [stem_word(word) for word in _QUERY_WORD.findall(plain) if word not in _STOP_WORDS]
    pairs = [f"{one} {two}" for one, two in pairwise(stems)]
    return [*stems, *pairs]


def stem_word(word: str) -> str:
    """Maps related words to one stem: expires, expired, expiry."""
    for ending in ("ations", "ation", "ingly", "ings", "ing", "iness", "edly", "ies", "ied", "ers",
                   "ed", "es", "er", "ly", "s", "y", "e"):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _term_weights(skill: Skill) -> dict[str, float]:
    playbook = skill.playbook
    sources: Sequence[tuple[str, float]] = (
        (skill.description, DESCRIPTION_WEIGHT),
        (" ".join(skill.text.tags), TAGS_WEIGHT),
        (skill.name.replace("-", " "), NAME_WEIGHT),
        *((words, SIGNATURE_WEIGHT) for words in (playbook.signature.words if playbook else ())),
    )
    found: dict[str, float] = {}
    for text, weight in sources:
        for term in extract_terms(text):
            gain = weight * _PHRASE_FACTOR if " " in term else weight
            found[term] = max(found.get(term, 0.0), gain)
    return found


class SkillCatalog:
    """Offers the skills of a library to the tools of the agent."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    @cached_property
    def _matcher(self) -> SkillMatcher:
        return SkillMatcher(self._library.skills)

    async def categories(self) -> Sequence[tuple[str, int]]:
        return list(self._library.categories().items())

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        skills = self._library.skills
        if category:
            known = self._library.categories()
            if category not in known:
                raise ToolError(f"there is no category {category!r}; there are: {', '.join(known)}")
            skills = [skill for skill in skills if skill.category == category]
        if task:
            found = self._matcher.rank(task, limit=len(self._library.skills_by_name), min_score=0.0)
            position = {match.skill: number for number, match in enumerate(found)}
            skills.sort(key=lambda skill: position.get(skill.name, len(position)))
        return [skill_card(skill) for skill in skills]

    async def body(self, name: str) -> str:
        skill = self._find(name)
        files = f"\n\nOther files: {', '.join(skill.files)}" if skill.files else ""
        return f"{skill.text.body.strip()}{files}"

    async def outline(self, name: str) -> str:
        skill = self._find(name)
        heads = [line for line in skill.text.body.splitlines() if line.startswith("#")]
        return "\n".join([skill.description, *heads, *(f"file: {file}" for file in skill.files)])

    async def linked(self, name: str, file: str) -> str:
        try:
            return self._find(name).read_linked_file(file)
        except SettingsError as error:
            raise ToolError(str(error)) from error

    def _find(self, name: str) -> Skill:
        try:
            return self._library.find(name)
        except SettingsError as error:
            similar = [match.skill for match in self._matcher.rank(name, limit=3, min_score=0.1)]
            hint = f"similar: {', '.join(similar)}" if similar else "skills_list shows them"
            raise ToolError(f"there is no skill {name!r}; {hint}") from error


def skill_card(skill: Skill) -> SkillCard:
    return SkillCard(
        name=skill.name,
        description=skill.description,
        category=skill.category,
        playbook=PLAYBOOK_FILE in skill.files,
    )
