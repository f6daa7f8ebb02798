"""Tracks what each run has read, and finds words of actions that came from untrusted text."""

import re
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from hermes.core.actions import Action
from hermes.core.messages import ToolCall
from hermes.policy.actions.action_effects import ActionEffects, ActionStep, root_run
from hermes.policy.commands.effects import word_set
from hermes.policy.taint.memory import ORDERED_WORD, READ_WORD, STATED_WORD, WORD_PAIR, RunReading
from hermes.policy.taint.words import (
    ADDRESS_WORD,
    DISTINCTIVE_WORD,
    decode_hidden_texts,
    host_of_address,
    is_distinctive,
    is_short,
    join_string_pieces,
    normalized_words,
    reversed_pairs,
    reversed_words,
)

_RUNS_COMMANDS = re.compile(
    r"https?://|\b(?:sudo|curl|wget|nc|bash|sh|eval|exec|rm|chmod|chown|base64|touch|mv|cp|dd|kill"
    r"|pkill|systemctl|kubectl|docker|ssh|scp|python3?|perl|crontab|echo|tee|ln|mkdir|git)\b"
)
_SCRIPT_PATH = re.compile(
    r"\.(?:sh|bash|zsh|py|pl|rb|js|ps1|service|timer|cron|sql|mk|tf|envrc|gradle)$"
    r"|/(?:Makefile|Dockerfile|Jenkinsfile|crontab|hooks/[^/]+|\.(?:bash|zsh|profile)\w*)$"
)
_COMMON_WORDS = word_set(
    "file files folder directory service server system data name user users root http https true "
    "false test tests main master origin head status start stop restart reload config default "
    "local localhost node nodes prod production staging latest force all none null home path this "
    "that with from into over under then than when what where which while there here have been "
    "will your them they their some more most only just also very much many each every other "
    "after before about error warning info debug json yaml text list show print echo value values "
    "bash python python3 sudo docker kubectl systemctl port host time date type mode size line "
    "lines word words key keys open close read write update version install apply delete create"
)
_GLOB = re.compile(r"[*?\[]")
_MIN_NUMBER_DIGITS = 3
"""Shorter numbers occur in every text."""


@dataclass(frozen=True)
class ActionText:
    """The texts of an action, and the verbs in them."""

    texts: tuple[str, ...]
    verbs: frozenset[str]
    code: bool = False
    """Code in a language that is not parsed: each of its words may be a verb."""
    strict: bool = False
    """A command without isolation; edits of files do not count, because they can be undone."""

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))

    @cached_property
    def variants(self) -> list[list[str]]:
        """The words, plain and decoded."""
        shown = [join_string_pieces(text) if self.code else text for text in self.texts]
        hidden = [found for text in self.texts for found in decode_hidden_texts(text)]
        return [words for words in map(normalized_words, [*shown, *hidden]) if words]

    def objects(self, words: Iterable[str], step: ActionStep) -> Iterator[str]:
        """The objects of the action: the distinctive words among these."""
        alone = len(step.argv) == 1
        for word in (*words, *self._paths(step)):
            if word in self.verbs and not alone:
                continue
            if _GLOB.search(word):
                word = word.rpartition("/")[0]
            if is_short(word) or (word.isdecimal() and len(word) < _MIN_NUMBER_DIGITS):
                continue
            if DISTINCTIVE_WORD.search(word) or (len(word) > 3 and word not in _COMMON_WORDS):
                yield word

    def _paths(self, step: ActionStep) -> Iterator[str]:
        for path in step.changes:
            yield path.lower()
            yield path.lower().rpartition("/")[2]


def action_text(call: ToolCall, effects: ActionEffects, *, whole: bool = False) -> ActionText:
    """`whole` also includes the parts of a file that run nothing, for a file that is run later.

    The content of a file after an edit is mostly that of before, which was read: so only the new
    words of an edit count, and of a whole file only its path and lines that run something.
    """
    verbs = frozenset(_step_verbs(effects.steps))
    if call.name == "write_file":
        path, content = str(call.arguments.get("path", "")), str(call.arguments.get("content", ""))
        kept = content if whole or _is_script(path, content) else _lines_that_run(content)
        texts = (kept,) if whole else (path, *kept.splitlines())
        return ActionText(texts, verbs, code=True)
    if call.name == "patch":
        return ActionText(tuple(_patch_texts(call.arguments, whole)), verbs, code=True)
    texts = (effects.command,) if effects.command and call.name != "process" else ()
    argv = tuple(" ".join(step.argv) for step in effects.steps if step.argv)
    return ActionText(
        (*texts, *_argument_texts(call.arguments.values()), *argv),
        verbs,
        code=call.name == "execute_code",
        strict=not effects.where.isolated,
    )


def is_lasting_note(call: ToolCall) -> bool:
    """Notes change only the prompt of later sessions."""
    return call.name == "memory" and call.arguments.get("action") != "read"


def _step_verbs(steps: Iterable[ActionStep]) -> Iterator[str]:
    """Programs, and the words right after them that are their verbs."""
    for step in steps:
        yield step.program.rpartition("/")[2].lower()
        for word in step.argv[:3]:
            if not DISTINCTIVE_WORD.search(word):
                yield word.lower()
        yield from (each.rpartition("/")[2].lower() for each in step.argv[:1])


def _patch_texts(arguments: Mapping[str, Any], whole: bool) -> Iterator[str]:
    old = set(str(arguments.get("old", "")).splitlines())
    new = str(arguments.get("new", "")).splitlines()
    diff = str(arguments.get("diff", "")).splitlines()
    added = [line for line in new if line not in old]
    added += [line[1:] for line in diff if line[:1] == "+" and line[:3] != "+++"]
    text = "\n".join(added)
    path = str(arguments.get("path", ""))
    yield path
    yield text if whole or _is_script(path, "") else _lines_that_run(text)


def _is_script(path: str, content: str) -> bool:
    return content.startswith("#!") or _SCRIPT_PATH.search(path) is not None


def _lines_that_run(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if _RUNS_COMMANDS.search(line))


def _argument_texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _argument_texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _argument_texts(value)


_MAX_ENDED_RUNS = 64
"""Runs that are kept although nobody said that they are in use."""
_ECHO_TOOLS = frozenset({"todo", "clarify"})
"""Tools that only return text of the model or a person."""
_NETWORK_EFFECTS = frozenset({"network-read", "network-local", "network-out"})
_UNKNOWN_EFFECTS = frozenset({"exec-dynamic"})
_MAX_COMPARED_CHARS = 200_000
"""A longer action is not compared, and needs approval."""
_MIN_QUOTED_WORDS = 4
"""This many equal words in a row do not occur by chance."""


class TaintTracker:
    """Keeps what each run has read, and the text of people in it."""

    def __init__(self, active_runs: Container[str] = frozenset()) -> None:
        """`living` are runs that are in use: what they have read is never forgotten."""
        self._active_runs = active_runs
        self._runs: OrderedDict[str, RunReading] = OrderedDict()

    def record_text(
        self, run: str, text: str, *, trusted: bool, call: ToolCall | None = None
    ) -> None:
        """Adds text of a person, or the result of a tool."""
        if trusted:
            self._reading_of(run).add_trusted(text)
        elif text and (call is None or call.name not in _ECHO_TOOLS):
            reads = call is not None and call.name == "read_file"
            opened = str(call.arguments.get("path", "")) if call is not None and reads else ""
            self._reading_of(run).add_unread(text, opened)

    def find_tainted_words(self, action: Action, effects: ActionEffects) -> str:
        """The words of an action that came from untrusted text, or an empty string."""
        known = self._runs.get(root_run(action.run))
        lasting = is_lasting_note(action.call)
        steps = [
            step
            for step in effects.steps
            if not step.is_read_only or step.effects & _NETWORK_EFFECTS
        ]
        if known is None or not known.anything or not (steps or lasting):
            return ""
        known.read_pending()
        text = action_text(action.call, effects)
        if text.size > _MAX_COMPARED_CHARS:
            return "more text than can be compared"
        if lasting:
            return next(filter(None, (_copied_order(known, words) for words in text.variants)), "")
        return next(filter(None, (_tainted_words_in_step(known, step, text) for step in steps)), "")

    def record_start(self, action: Action, effects: ActionEffects) -> None:
        """Remembers files with untrusted words, because they may be run later."""
        changed = [path for step in effects.steps for path in step.changes]
        if not changed:
            return
        known = self._reading_of(action.run)
        for path in map(str.lower, changed):  # also before anything was read: the tool returns it
            known.opened |= {path, path.rpartition("/")[2]}
        if not known.anything:
            return
        known.read_pending()
        content = action_text(action.call, effects, whole=True)
        if any(_repeats_read_text(known, words) for words in content.variants):
            known.written.update(changed)

    @property
    def known_runs(self) -> frozenset[str]:
        return frozenset(self._runs)

    def forget(self, run: str) -> None:
        self._runs.pop(root_run(run), None)

    def _reading_of(self, run: str) -> RunReading:
        family = root_run(run)
        known = self._runs.setdefault(family, RunReading())
        self._runs.move_to_end(family)
        if len(self._runs) > _MAX_ENDED_RUNS:
            ended = [run for run in self._runs if run != family and run not in self._active_runs]
            for run in ended[:-_MAX_ENDED_RUNS]:
                del self._runs[run]
        return known


def _tainted_words_in_step(known: RunReading, step: ActionStep, text: ActionText) -> str:
    written = known.written.intersection(step.written)
    if written:
        return f"{min(written)}, written from it"
    for words in text.variants:
        found = (
            _ordered_address(known, words) or _sent_words(known, step, words)
            if step.is_read_only
            else _first_match(known, step, text, words)
        )
        if found:
            return found
    if (
        known.has_instructions
        and not step.is_read_only
        and (step.effects & _UNKNOWN_EFFECTS or text.code)
    ):
        return "a program nobody has seen, after text that gives orders to an agent"
    return ""


def _first_match(known: RunReading, step: ActionStep, text: ActionText, words: list[str]) -> str:
    return (
        next(
            (word for word in words if ADDRESS_WORD.match(word) and known.has(READ_WORD, word)), ""
        )
        or _ordered_address(known, words)
        or _adjacent_words(known, words, text)
        or next((word for word in text.objects(words, step) if _is_suspect(known, word)), "")
        or (_listed_path(known, step, words) if text.strict else "")
    )


def _listed_path(known: RunReading, step: ActionStep, words: list[str]) -> str:
    """Without isolation, the path of a changed file must not come from a text at all."""
    for path in map(str.lower, step.changes):
        named = [path, *(word for word in words if is_distinctive(word) and path.endswith(word))]
        for word in named:
            if word not in known.opened and known.has(READ_WORD, word):
                return word
    return ""


def _ordered_address(known: RunReading, words: list[str]) -> str:
    """Fetching a page can send data: so it counts if a text contains the instruction."""
    for word in words:
        if "://" in word and any(
            _is_suspect(known, each) for each in (word, host_of_address(word))
        ):
            return word
    return ""


def _sent_words(known: RunReading, step: ActionStep, words: list[str]) -> str:
    """A tool that asks a host which nobody configured sends its arguments there: a host, or an
    instruction, from untrusted text counts, also without a scheme before it."""
    if step.program or "network-read" not in step.effects:
        return ""
    hosts = (word for word in words if is_distinctive(word) and "." in word)
    return next((word for word in hosts if _is_suspect(known, word)), "") or _copied_order(
        known, words
    )


def _adjacent_words(known: RunReading, words: list[str], text: ActionText) -> str:
    """Words that are adjacent in a text, including a program or its verb.

    Common words may be adjacent by chance; with a path, a number, or three in a row they are not.
    """
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        if not _are_adjacent(known, first, second):
            row = [second]
            continue
        row.append(second)
        telling = (
            len(row) > 2 or len(row) == len(words) or any(map(is_distinctive, (first, second)))
        )
        if telling and (text.code or text.verbs.intersection(row)):
            return " ".join(row)
    return ""


def _copied_order(known: RunReading, words: list[str]) -> str:
    """An instruction that is copied into a note would persist in later sessions."""
    row: list[str] = words[:1]
    for first, second in pairwise(words):
        row = [*row, second] if _are_adjacent(known, first, second) else [second]
        if len(row) >= _MIN_QUOTED_WORDS and all(_is_suspect(known, word) for word in row):
            return " ".join(row)
    return ""


def _are_adjacent(known: RunReading, first: str, second: str) -> bool:
    if known.has(WORD_PAIR, first, second):
        return True
    return any(known.has(WORD_PAIR, *pair) for pair in reversed_pairs(first, second))


def _repeats_read_text(known: RunReading, words: list[str]) -> bool:
    """Return whether a file's text has three words in a row, or a word of an instruction, from a
    text."""
    if any(is_distinctive(word) and known.has(ORDERED_WORD, word) for word in words):
        return True
    row = 1
    for first, second in pairwise(words):
        row = row + 1 if _are_adjacent(known, first, second) else 1
        if row > 2:
            return True
    return False


def _is_suspect(known: RunReading, word: str) -> bool:
    if known.has(ORDERED_WORD, word) or (known.has(STATED_WORD, word) and word not in known.opened):
        return True
    return known.has_instructions and any(
        known.has(READ_WORD, each) for each in (word, *reversed_words(word))
    )
