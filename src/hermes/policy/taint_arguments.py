"""Which words of an action decide what happens, tool by tool."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hermes.core.messages import ToolCall
from hermes.policy.commands.values import word_set
from hermes.policy.deed import Deed, Step
from hermes.policy.taint_disguises import disguised
from hermes.policy.taint_words import TELLING, is_short, joined, words_of

_RUNS_THINGS = re.compile(
    r"https?://|\b(?:sudo|curl|wget|nc|bash|sh|eval|exec|rm|chmod|chown|base64|touch|mv|cp|dd|kill"
    r"|pkill|systemctl|kubectl|docker|ssh|scp|python3?|perl|crontab|echo|tee|ln|mkdir|git)\b"
)
_SCRIPT = re.compile(
    r"\.(?:sh|bash|zsh|py|pl|rb|js|ps1|service|timer|cron|sql|mk|tf|envrc|gradle)$"
    r"|/(?:Makefile|Dockerfile|Jenkinsfile|crontab|hooks/[^/]+|\.(?:bash|zsh|profile)\w*)$"
)
_COMMON = word_set(
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
_SHORTEST_NUMBER = 3
"""Digits below which a number stands in every text."""


@dataclass(frozen=True)
class Said:
    """The texts of an action, and what in them is a verb."""

    texts: tuple[str, ...]
    verbs: frozenset[str]
    code: bool = False
    """A program in a language that nobody parses here: each of its words may be a verb."""
    strict: bool = False
    """A command in a place that is not isolated; edits of files are recorded and can be undone."""

    @property
    def size(self) -> int:
        return sum(map(len, self.texts))

    @cached_property
    def variants(self) -> list[list[str]]:
        """Their words, plain and with encodings taken off."""
        shown = [joined(text) if self.code else text for text in self.texts]
        hidden = [found for text in self.texts for found in disguised(text)]
        return [words for words in map(words_of, [*shown, *hidden]) if words]

    def objects(self, words: Iterable[str], step: Step) -> Iterator[str]:
        """What it acts on: of these words those that mean something by themselves."""
        alone = len(step.argv) == 1
        for word in (*words, *self._paths(step)):
            if word in self.verbs and not alone:
                continue
            if _GLOB.search(word):
                word = word.rpartition("/")[0]
            if is_short(word) or (word.isdecimal() and len(word) < _SHORTEST_NUMBER):
                continue
            if TELLING.search(word) or (len(word) > 3 and word not in _COMMON):
                yield word

    def _paths(self, step: Step) -> Iterator[str]:
        for path in step.changes:
            yield path.lower()
            yield path.lower().rpartition("/")[2]


def said_by(call: ToolCall, deed: Deed, *, whole: bool = False) -> Said:
    """`whole` also counts the parts of a file that run nothing: for what is run later.

    What a file says after an edit is mostly what it said before, and that came from reading it:
    of an edit only the new words count, of a whole file only its path and lines that run things.
    """
    verbs = frozenset(_verbs(deed.steps))
    if call.name == "write_file":
        path, content = str(call.arguments.get("path", "")), str(call.arguments.get("content", ""))
        kept = content if whole or _is_script(path, content) else _lines_that_run(content)
        texts = (kept,) if whole else (path, *kept.splitlines())
        return Said(texts, verbs, code=True)
    if call.name == "patch":
        return Said(tuple(_patched(call.arguments, whole)), verbs, code=True)
    texts = (deed.command,) if deed.command and call.name != "process" else ()
    argv = tuple(" ".join(step.argv) for step in deed.steps if step.argv)
    return Said(
        (*texts, *_texts(call.arguments.values()), *argv),
        verbs,
        code=call.name == "execute_code",
        strict=not deed.where.isolated,
    )


def is_lasting(call: ToolCall) -> bool:
    """Notes change nothing but what every later session is told first."""
    return call.name == "memory" and call.arguments.get("action") != "read"


def _verbs(steps: Iterable[Step]) -> Iterator[str]:
    """Programs, and the words right after them that say what the program is to do."""
    for step in steps:
        yield step.program.rpartition("/")[2].lower()
        for word in step.argv[:3]:
            if not TELLING.search(word):
                yield word.lower()
        yield from (each.rpartition("/")[2].lower() for each in step.argv[:1])


def _patched(arguments: Mapping[str, Any], whole: bool) -> Iterator[str]:
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
    return content.startswith("#!") or _SCRIPT.search(path) is not None


def _lines_that_run(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if _RUNS_THINGS.search(line))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _texts(value)
