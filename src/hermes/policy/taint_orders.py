"""Finds where a text tells somebody to do something, as against reporting what is.

A listing, a status page or an error message names paths and services, and nearly every repair names
them again. An order names them too. So the words around an order are remembered as ordered, and a
text that speaks to an agent puts its whole run on alert.
"""

import re
from collections.abc import Iterator

from hermes.policy.taint_vocabulary import (
    ELSEWHERE,
    LABELS,
    MODALS,
    PROGRAMS,
    SYSTEM_CALLS,
    TRIGGERS,
    VERBS,
)
from hermes.policy.taint_words import TELLING, foreign

_THEN = {
    word: re.compile(rest)
    for words, rest in (
        ("needs need", r"\s+(?:to|a)\b"),
        ("has have", r"\s+to\b"),
        ("would", r"\s+(?:like|be)\b"),
        ("solution answer", r"\s+is\b|:"),
        ("requires", r"\s+(?!root|privilege)"),
    )
    for word in words.split()
}
"""Words that are an order only with what follows."""
_MARKS = VERBS | PROGRAMS | MODALS | ELSEWHERE
_TOKEN = re.compile(r"[^\W\d_][\w'-]*")
_LEADS_IN = re.compile(
    r"(?:(?:\n|[.!?;,-]\s|[:>\"'`*#–—\])|$])\s*"
    r"|\b(?:please|kindly|to|must|should|shall|then|and|or|now|you|immediately|first|next|also|just"
    r"|simply|can|may|will|would|always|agent|assistant|bot|ai|step ?\d+|error|warn|warning|info"
    r"|debug|notice|fatal|critical|alert|hint|fix|action|go|ahead|by|safely|quickly|manually|lets|it)"
    r"[:,.)]?\s+)\Z"
)
_NOT_AN_ORDER = re.compile(
    r"(?:fail(?:ed|ure|s|ing)?|unable|cannot|can ?not|can'?t|could ?n[o']t|could not|not|n't"
    r"|refused|tr(?:y|ied|ying)|attempt(?:ed|ing)?|going|about|had|used|while|when|how|permission"
    r"|nothing|time|ready|seconds|due|prior)\s+(?:to\s+)?$"
)
_CHAIN = re.compile(r"(?:err(?:or)?|fail(?:ed|ure)|fatal|panic|cannot|emerg)\b.*[:\"\]] ?\"?$")
_BACKWARDS = re.compile(r"\b(?:it|them|this|that|these|those|above|together|both|object)\b")
_VISIT = re.compile(r"(?:\s{1,9}\S{1,99}){0,3}\s{1,9}\W?https?://")
_REPORT = re.compile(r"(?:\s{1,9}\S{1,300})?\s{0,9}: ")
"""`open /etc/x: no such file` and `rm: cannot`: how programs complain."""

_TO_AGENT = re.compile(
    r"(?:ignore|disregard|forget|override|supersede)\w*\W+(?:\w+\W+){0,4}?(?:previous|prior|above"
    r"|earlier|all|any|instructions?|rules?|polic\w+|guidelines|prompt)"
    r"|(?:system|developer)\W{0,3}(?:prompt|message|override|instruction|note|notice)"
    r"|(?:^|[\[<>\"'#*|])\s*system\s*[:>\]]"
    r"|<\|?/?(?:system|im_start|im_end|assistant|user|tool|invoke|function|instructions?)\b"
    r"|\[/?inst\]|###\s*(?:system|instruction|assistant|human)|\b(?:assistant|human|ai)\s*:"
    r"|\b(?:dear|hey|hello|hi|attention|note (?:to|for))[\s,]+(?:\w+\s+){0,3}(?:ai|agent|assistant"
    r"|hermes|bot|model|llm|automation|copilot|sre)\b"
    r"|\b(?:ai|llm|language|autonomous|automated|coding|ops|sre) ?"
    r"(?:agent|assistant|model|operator)s?\b"
    r"|you are (?:now|an?|the)\b|\bpretend\b|\brole.?play|\bact as\b|\bjailbreak|\bdan mode"
    r"|(?:already|pre-?|been|is|was|were|has) ?-?(?:approved|authori[sz]ed|signed off|cleared)"
    r"|\bapproval\W+(?:\w+\W+){0,3}(?:granted|given|not (?:needed|required)|id|token|code)"
    r"|(?:no|without|skip\w*|don'?t|do not|not) (?:\w+ ){0,3}"
    r"(?:approv\w+|confirm\w*|permission\b(?! denied)|ask\w*|tell|mention|report"
    r"|notif\w+|inform|warn)"
    r"|\"(?:name|tool|function|tool_name|recipient_name)\"\s*:\s*\"(?:functions\.)?"
    r"(?:terminal|write_file|patch|execute_code|process|delegate|bash|shell|run)"
    r"|tool_?(?:call|use|result)|function_?call|\"arguments\"\s*:"
    r"|end of (?:data|output|file contents|log|untrusted)|[\[⟦]+\s*/?(?:end of )?data"
    r"|\bhermes\b|policies/|allow-?list|memory\.md|skill\.md|audit (?:log|trail|key)|\.env\b"
    r"|(?:base ?64|base ?32|hex|rot ?-?13|reversed?|backwards?|cipher|encoded|decod\w+|spelled)\b"
    r"|\x1b\[8m|(?:display:\s*none|font-size:\s*0|visibility:\s*hidden|color:\s*(?:white|#fff))"
)
_LEAD = 24
_PART_OF_A_NAME = tuple("/.-_=@")
_NO_VERB = re.compile(r"[(=/@_]|\.\w|:\w")
_BEFORE_IT, _AFTER_IT, _A_FEW, _PAGE = 120, 240, 3, 4000


class Survey:
    """One walk over a text in lower case."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.alarming = False
        """Whether it speaks to an agent."""
        self.orders: list[tuple[int, int]] = []
        asked = -1
        for token in _TOKEN.finditer(plain):
            word = token.group()
            if word in TRIGGERS and not self.alarming and token.start() >= asked:
                start, asked = self._lines_around(token.start())
                self.alarming = _TO_AGENT.search(plain, start, asked) is not None
            if word in _MARKS and self._orders(word, token.start(), token.end()):
                self.orders.append(token.span())

    def parts(self) -> Iterator[str]:
        """The pieces around each order: its line up to there, its rest and the line after it."""
        reached = 0
        for start, end in self.orders:
            begin, stop = max(self._begin_of(start, end), reached), self._end_of(end)
            if stop > begin:
                yield self.plain[begin:stop]
                reached = stop
        if not self.plain.isascii():
            yield from (line for line in self.plain.splitlines() if foreign(line))

    def _orders(self, word: str, start: int, end: int) -> bool:
        plain = self.plain
        if word in MODALS or word in ELSEWHERE:
            follows = _THEN.get(word)
            return follows is None or follows.match(plain, end) is not None
        if plain[start - 1 : start] in _PART_OF_A_NAME or _NO_VERB.match(plain, end):
            return False
        if word not in LABELS and _REPORT.match(plain, end):
            return False
        before = f"\n{plain[:start]}" if start < _LEAD else plain[start - _LEAD : start]
        if word in SYSTEM_CALLS and _CHAIN.search(before):
            return False
        leads_in = _LEADS_IN.search(before) is not None or _VISIT.match(plain, end) is not None
        return leads_in and not _NOT_AN_ORDER.search(before)

    def _lines_around(self, place: int) -> tuple[int, int]:
        """A stretch of text for each trigger, at most a page of it."""
        start = self.plain.rfind("\n", max(0, place - _AFTER_IT), place)
        end = self.plain.find("\n", place, place + _PAGE)
        return (
            start + 1 if start >= 0 else max(0, place - _AFTER_IT),
            end if end >= 0 else min(len(self.plain), place + _PAGE),
        )

    def _begin_of(self, start: int, end: int) -> int:
        """Where its line begins, or some lines earlier if it speaks of what stands there."""
        first = max(0, start - 2 * _BEFORE_IT)
        line = max(self.plain.rfind("\n", first, start) + 1, start - _BEFORE_IT, 0)
        if not _BACKWARDS.search(self.plain, line, self._line_end(end)):
            return line
        for _ in range(_A_FEW):
            line = max(self.plain.rfind("\n", first, max(first, line - 1)) + 1, first)
        return line

    def _end_of(self, end: int) -> int:
        """Where its line ends, or the next one if what is to be done only stands there."""
        stop = self._line_end(end)
        rest = self.plain[end:stop]
        if stop < len(self.plain) and len(rest.split()) < _A_FEW and not TELLING.search(rest):
            stop = self._line_end(stop + 1)
        return min(stop, end + _AFTER_IT)

    def _line_end(self, place: int) -> int:
        """Or as far as anybody looks: a line may be a megabyte long."""
        found = self.plain.find("\n", place, place + _AFTER_IT)
        return found if found >= 0 else min(len(self.plain), place + _AFTER_IT)
