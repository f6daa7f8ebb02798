"""Tells whether an action does what a text said that nobody vouches for: a log, a file, a page.

A prompt injection works by having its words carried out. So what a run reads is remembered, within
fixed memory and never forgotten while it lasts, and an action that is no mere look is tainted when

- it repeats a command of such a text: the program and its object side by side, or an address;
- its object stands where such a text gives an order: "the folder /srv/x should go";
- its object stands in a sentence of such a text that is no complaint about it;
- after a text that speaks to an agent, it repeats anything that was read, or runs what nobody saw;
- it runs a file that this run wrote from such a text;
- outside of an isolated place, a command changes a file that only such a text names at all.

Else a path or a name that was only listed or complained about taints nothing: nearly every repair
names what it read. What a person said as well is never tainted. Subagents share all of this with
the run they belong to.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from hermes.core.actions import Action
from hermes.core.messages import ToolCall
from hermes.policy.deed import Deed, Step
from hermes.policy.taint_arguments import Said, is_lasting, said_by
from hermes.policy.taint_disguises import disguised, spelled_in_escapes, turned, turned_word
from hermes.policy.taint_lines import told
from hermes.policy.taint_orders import Survey
from hermes.policy.taint_words import (
    ADDRESS,
    TELLING,
    host_of,
    joined,
    parents,
    plain_of,
    split,
    words_of,
)

_BITS = 1 << 23
"""A megabyte for a run: after a million entries one lookup in forty is wrong, on the safe side."""
_PRIME = _BITS - 15
_RUNS = 64
_ASIDE = 2_000_000
"""Characters of a run that may wait to be taken apart."""
_TRUSTED = 200_000
_PAIR, _SEEN, _ORDERED, _TOLD = range(4)
_OWN_VOICE = frozenset({"todo", "clarify"})
"""Tools that only give back what the model or a person said."""
_REACHES = frozenset({"network-read", "network-local", "network-out"})
_UNSEEN = frozenset({"exec-dynamic"})
_COMPARED = 200_000
"""Characters of an action that are compared with what was read; a longer one is asked about."""
_QUOTED = 4
"""Words in a row that nobody writes twice by chance."""


class _Known:
    """A Bloom filter: it may take for known what is not, never the other way round."""

    def __init__(self) -> None:
        self._bits = bytearray(_BITS >> 3)

    def add(self, entries: Iterable[tuple[int, str, str]]) -> None:
        bits = self._bits
        for entry in entries:
            for place in _places(entry):
                bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, entry: tuple[int, str, str]) -> bool:
        bits = self._bits
        return all(bits[place >> 3] & (1 << (place & 7)) for place in _places(entry))


def _places(entry: tuple[int, str, str]) -> tuple[int, int, int]:
    number = hash(entry)
    return number & (_BITS - 1), (number >> 24) & (_BITS - 1), number % _PRIME


class _Run:
    def __init__(self) -> None:
        self.read: _Known | None = None
        self.anything = False
        self.alarmed = False
        """A text spoke to the agent; from then on whatever was read is suspect."""
        self.trusted: set[tuple[int, str, str]] = set()
        self.aside: list[str] = []
        """Read, and not taken apart yet: most runs only look, and for those it never matters."""
        self.size = 0
        self.opened: set[str] = set()
        """Files that the agent chose to read, or changed: going on with them needs no text."""
        self.written: set[str] = set()
        """Files made from untrusted words."""

    def set_aside(self, text: str) -> None:
        self.anything = True
        self.aside.append(text)
        self.size += len(text)
        if self.size > _ASIDE:
            self.digest()

    def digest(self) -> None:
        for text in self.aside:
            self._read(text)
        self.aside, self.size = [], 0

    def _read(self, text: str) -> None:
        survey = Survey(plain_of(text))
        self.alarmed = self.alarmed or survey.alarming or spelled_in_escapes(text)
        known = self.read = self.read or _Known()
        known.add(_entries(words_of(text)))
        if (whole := joined(text)) != text:
            known.add(_entries(words_of(whole)))
        for part in survey.parts():
            known.add(_ordered(split(part)))
        known.add((_TOLD, word, "") for word in told(survey.plain))
        for hidden in set(disguised(text)):
            words = words_of(hidden)
            known.add(_entries(words))
            known.add(_ordered(words))

    def has(self, kind: int, first: str, second: str = "") -> bool:
        entry = (kind, first, second)
        vouched = (_PAIR if kind == _PAIR else _SEEN, first, second)
        return self.read is not None and vouched not in self.trusted and entry in self.read


class Taint:
    """What each run has read, and what people said in it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def heard(self, run: str, text: str, *, trusted: bool, call: ToolCall | None = None) -> None:
        """A person's words, or what a tool brought along."""
        if trusted:
            known = self._of(run).trusted
            if len(known) < _TRUSTED:
                known.update(_vouched(words_of(text)))
        elif text and (call is None or call.name not in _OWN_VOICE):
            known_run = self._of(run)
            known_run.set_aside(text)
            if call is not None and call.name == "read_file":
                known_run.opened.update(words_of(str(call.arguments.get("path", ""))))

    def carried(self, action: Action, deed: Deed) -> str:
        """The words of an action that came from untrusted text, or an empty string."""
        known = self._runs.get(_family(action.run))
        lasting = is_lasting(action.call)
        steps = [step for step in deed.steps if not step.plain or step.effects & _REACHES]
        if known is None or not known.anything or not (steps or lasting):
            return ""
        known.digest()
        said = said_by(action.call, deed)
        if said.size > _COMPARED:
            return "more text than can be compared"
        if lasting:
            return next(filter(None, (_dictated(known, words) for words in said.variants)), "")
        return next(filter(None, (_in_step(known, step, said) for step in steps)), "")

    def started(self, action: Action, deed: Deed) -> None:
        """Files made from untrusted words are remembered: running them does what those said."""
        known = self._runs.get(_family(action.run))
        if known is None or not known.anything:
            return
        changed = [path for step in deed.steps for path in step.changes]
        if not changed:
            return
        known.digest()
        for path in map(str.lower, changed):
            known.opened |= {path, path.rpartition("/")[2]}
        content = said_by(action.call, deed, whole=True)
        if any(_repeats(known, words) for words in content.variants):
            known.written.update(changed)

    def forget(self, run: str) -> None:
        self._runs.pop(_family(run), None)

    def _of(self, run: str) -> _Run:
        family = _family(run)
        known = self._runs.setdefault(family, _Run())
        self._runs.move_to_end(family)
        if len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return known


def _family(run: str) -> str:
    """A subagent was given its task from what its parent read, and reports back to it."""
    return run.partition("/")[0]


def _in_step(known: _Run, step: Step, said: Said) -> str:
    written = known.written.intersection(step.written)
    if written:
        return f"{min(written)}, written from it"
    for words in said.variants:
        found = _address(known, words) if step.plain else _first_match(known, step, said, words)
        if found:
            return found
    if known.alarmed and not step.plain and (step.effects & _UNSEEN or said.code):
        return "a program nobody has seen, after text that gives orders to an agent"
    return ""


def _first_match(known: _Run, step: Step, said: Said, words: list[str]) -> str:
    return (
        next((word for word in words if ADDRESS.match(word) and known.has(_SEEN, word)), "")
        or _address(known, words)
        or _row(known, words, said)
        or next((word for word in said.objects(words, step) if _suspect(known, word)), "")
        or (_listed(known, step, words) if said.strict else "")
    )


def _listed(known: _Run, step: Step, words: list[str]) -> str:
    """Where a mistake is real, the file that a command changes must not come from a text at all."""
    for path in map(str.lower, step.changes):
        named = [path, *(word for word in words if TELLING.search(word) and path.endswith(word))]
        for word in named:
            if word not in known.opened and known.has(_SEEN, word):
                return word
    return ""


def _address(known: _Run, words: list[str]) -> str:
    """Fetching a page is a way to send: where a text orders it, it is no mere look."""
    for word in words:
        if "://" in word and any(_suspect(known, each) for each in (word, host_of(word))):
            return word
    return ""


def _row(known: _Run, words: list[str], said: Said) -> str:
    """Words that stand side by side in a text, a program or its verb among them.

    Common words meet by chance; with a path, a number, or three of them in a row they do not.
    """
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        if not _side_by_side(known, first, second):
            row = [second]
            continue
        row.append(second)
        telling = len(row) > 2 or len(row) == len(words) or TELLING.search(f"{first} {second}")
        if telling and (said.code or said.verbs.intersection(row)):
            return " ".join(row)
    return ""


def _dictated(known: _Run, words: list[str]) -> str:
    """A note is made of what was read; one that an order was copied into would give it for good."""
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        row = [*row, second] if _side_by_side(known, first, second) else [second]
        if len(row) >= _QUOTED and all(_suspect(known, word) for word in row):
            return " ".join(row)
    return ""


def _side_by_side(known: _Run, first: str, second: str) -> bool:
    if known.has(_PAIR, first, second):
        return True
    return any(known.has(_PAIR, *pair) for pair in turned(first, second))


def _repeats(known: _Run, words: list[str]) -> bool:
    """Whether a file's text has three words in a row, or an ordered one, from what was read."""
    if any(TELLING.search(word) and known.has(_ORDERED, word) for word in words):
        return True
    row = 1
    for first, second in pairwise(words):
        row = row + 1 if _side_by_side(known, first, second) else 1
        if row > 2:
            return True
    return False


def _suspect(known: _Run, word: str) -> bool:
    if known.has(_ORDERED, word) or (known.has(_TOLD, word) and word not in known.opened):
        return True
    return known.alarmed and any(known.has(_SEEN, each) for each in (word, *turned_word(word)))


def _entries(words: list[str]) -> Iterator[tuple[int, str, str]]:
    for first, second in set(pairwise(words)):
        yield _PAIR, first, second
    for word in set(words):
        yield _SEEN, word, ""
        if "://" in word:
            yield _SEEN, host_of(word), ""


def _vouched(words: list[str]) -> Iterator[tuple[int, str, str]]:
    """Whoever names a path also names the file at its end."""
    yield from _entries(words)
    for word in words:
        if "/" in word:
            yield _SEEN, word.rpartition("/")[2], ""


def _ordered(words: list[str]) -> Iterator[tuple[int, str, str]]:
    for word in set(words):
        yield _ORDERED, word, ""
        if "://" in word:
            yield _ORDERED, host_of(word), ""
        elif "/" in word:
            for folder in parents(word):
                yield _ORDERED, folder, ""
            yield _ORDERED, word.rpartition("/")[2], ""
