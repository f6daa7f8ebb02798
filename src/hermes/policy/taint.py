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
from itertools import pairwise

from hermes.core.actions import Action
from hermes.core.messages import ToolCall
from hermes.policy.deed import Deed, Step
from hermes.policy.taint_arguments import Said, is_lasting, said_by
from hermes.policy.taint_disguises import turned, turned_word
from hermes.policy.taint_memory import ORDERED, PAIR, SEEN, TOLD, Reading
from hermes.policy.taint_words import ADDRESS, host_of, is_telling

_RUNS = 64
_OWN_VOICE = frozenset({"todo", "clarify"})
"""Tools that only give back what the model or a person said."""
_REACHES = frozenset({"network-read", "network-local", "network-out"})
_UNSEEN = frozenset({"exec-dynamic"})
_COMPARED = 200_000
"""Characters of an action that are compared with what was read; a longer one is asked about."""
_QUOTED = 4
"""Words in a row that nobody writes twice by chance."""


class Taint:
    """What each run has read, and what people said in it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Reading] = OrderedDict()

    def heard(self, run: str, text: str, *, trusted: bool, call: ToolCall | None = None) -> None:
        """A person's words, or what a tool brought along."""
        if trusted:
            self._of(run).vouch(text)
        elif text and (call is None or call.name not in _OWN_VOICE):
            reads = call is not None and call.name == "read_file"
            opened = str(call.arguments.get("path", "")) if call is not None and reads else ""
            self._of(run).set_aside(text, opened)

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
        changed = [path for step in deed.steps for path in step.changes]
        if not changed:
            return
        known = self._of(action.run)
        for path in map(
            str.lower, changed
        ):  # before anything was read as well: the tool will say it
            known.opened |= {path, path.rpartition("/")[2]}
        if not known.anything:
            return
        known.digest()
        content = said_by(action.call, deed, whole=True)
        if any(_repeats(known, words) for words in content.variants):
            known.written.update(changed)

    def forget(self, run: str) -> None:
        self._runs.pop(_family(run), None)

    def _of(self, run: str) -> Reading:
        family = _family(run)
        known = self._runs.setdefault(family, Reading())
        self._runs.move_to_end(family)
        if len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return known


def _family(run: str) -> str:
    """A subagent was given its task from what its parent read, and reports back to it."""
    return run.partition("/")[0]


def _in_step(known: Reading, step: Step, said: Said) -> str:
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


def _first_match(known: Reading, step: Step, said: Said, words: list[str]) -> str:
    return (
        next((word for word in words if ADDRESS.match(word) and known.has(SEEN, word)), "")
        or _address(known, words)
        or _row(known, words, said)
        or next((word for word in said.objects(words, step) if _suspect(known, word)), "")
        or (_listed(known, step, words) if said.strict else "")
    )


def _listed(known: Reading, step: Step, words: list[str]) -> str:
    """Where a mistake is real, the file that a command changes must not come from a text at all."""
    for path in map(str.lower, step.changes):
        named = [path, *(word for word in words if is_telling(word) and path.endswith(word))]
        for word in named:
            if word not in known.opened and known.has(SEEN, word):
                return word
    return ""


def _address(known: Reading, words: list[str]) -> str:
    """Fetching a page is a way to send: where a text orders it, it is no mere look."""
    for word in words:
        if "://" in word and any(_suspect(known, each) for each in (word, host_of(word))):
            return word
    return ""


def _row(known: Reading, words: list[str], said: Said) -> str:
    """Words that stand side by side in a text, a program or its verb among them.

    Common words meet by chance; with a path, a number, or three of them in a row they do not.
    """
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        if not _side_by_side(known, first, second):
            row = [second]
            continue
        row.append(second)
        telling = len(row) > 2 or len(row) == len(words) or any(map(is_telling, (first, second)))
        if telling and (said.code or said.verbs.intersection(row)):
            return " ".join(row)
    return ""


def _dictated(known: Reading, words: list[str]) -> str:
    """A note is made of what was read; one that an order was copied into would give it for good."""
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        row = [*row, second] if _side_by_side(known, first, second) else [second]
        if len(row) >= _QUOTED and all(_suspect(known, word) for word in row):
            return " ".join(row)
    return ""


def _side_by_side(known: Reading, first: str, second: str) -> bool:
    if known.has(PAIR, first, second):
        return True
    return any(known.has(PAIR, *pair) for pair in turned(first, second))


def _repeats(known: Reading, words: list[str]) -> bool:
    """Whether a file's text has three words in a row, or an ordered one, from what was read."""
    if any(is_telling(word) and known.has(ORDERED, word) for word in words):
        return True
    row = 1
    for first, second in pairwise(words):
        row = row + 1 if _side_by_side(known, first, second) else 1
        if row > 2:
            return True
    return False


def _suspect(known: Reading, word: str) -> bool:
    if known.has(ORDERED, word) or (known.has(TOLD, word) and word not in known.opened):
        return True
    return known.alarmed and any(known.has(SEEN, each) for each in (word, *turned_word(word)))
