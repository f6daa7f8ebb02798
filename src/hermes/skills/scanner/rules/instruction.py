"""Whether a passage tells the agent to do something, or only quotes, forbids or describes it."""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from hermes.skills.scanner.finding import ScanFinding
from hermes.skills.scanner.patterns import load_pattern

WITHOUT_ASKING_CAUSE = "it wants something done without asking"
_HIDE_CAUSE = "it tells the agent to hide something from the user"
_GRANTED_CAUSE = "it claims an approval that was not given"
COVERT_CAUSE = "it wants something done in secret"
_COVERT_ADVERBS = (
    "silently", "quietly", "discreetly", "covertly", "secretly", "stealthily", "surreptitiously",
    "unnoticed",
)  # fmt: skip
_ACTION_VERBS = (
    "run", "execut", "fetch", "follow", "install", "download", "delete", "send", "upload", "do",
    "turn off", "disable", "switch off", "deactivate", "stop", "suspend", "mute", "clear",
    "ignore", "disregard", "bypass", "skip", "override", "pretend", "ask", "request", "collect",
    "silently", "quietly", "secretly",
)  # fmt: skip
_PROHIBITION_BEFORE = re.compile(
    r"\b(?:never|not|don't|avoid|rather than|instead of)\b"
    r"(?!\s+(?:hesitate|forget|fail|stop|wait|worry|bother|mind))[^.\n]{0,40}$"
)
_FORBIDDEN = re.compile(r"\b(?:never|do not|don't|avoid|must not|should not|cannot)\s+$")
"""Directly before the verb, whatever it is."""
_ASKING_FIRST = re.compile(
    r"\b(?:never|(?:do )?not|don't|cannot|can't|must not|avoid|no \w+)\b"
    r"(?!\s+(?:hesitate|forget|fail|stop|wait|worry|bother|mind|need))"
    r"(?:(?!\b(?:and|but|just|then|always)\b)[^.,;:\n]){0,80}?\b(?:without|unless|until|before)\b"
)
"""A prohibition with a condition: that it is only done after asking."""
_CONDITION_BEFORE = re.compile(r"\b(?:until|unless|whether)\b[^.,;:\n]{0,120}$")
_REFUSED_WITHOUT = re.compile(
    r"without\b[^.,\n]{0,60},\s[^.,\n]{0,60}"
    r"\b(?:stops?|fails?|aborts?|(?:be|is|are) (?:refused|rejected|blocked))\b"
)
"""What happens when nobody was asked: it is not done."""
_OTHER_REQUEST = re.compile(
    r"\bask(?:ing)? "
    r"(?:it|(?:the |an? |another )?(?:\w+ )?(?:reviewer|model|llm|sub-?agent|provider|cli|tool)s?) "
    r"(?:to|for) (?!(?:confirm|approv|permi|allow|agree|authori|consent|check|decide|verify|review|"
    r"sign|look|read|see|test|inspect)\w*\b)"
)
"""A request to another program: not the question whether something may be done."""
_EVIDENCE_AFTER = re.compile(r"[^.\n]{0,80}\bwithout (?!being|asking|telling)\w+ing\b")
"""Something may be told, but only with a proof."""
_FAULT_BEFORE = re.compile(
    r"\b(?:would|could|might|may|can|will|is|are|was|were|gets?|got|being|been|than|instead of)\b"
    r"[^,;:]{0,60}$"
)
_OBLIGATION = re.compile(
    r"\b(?:must|shall|should|has to|have to|needs? to|ought|make sure|ensure|always|let)\b"
)
_ACTION_OR_RECORD = re.compile(
    r"\b(?:sen[dt]|upload|push|publish|post|forward|transfer|pa[iy]|approv|grant|cop(?:y|ie)|collect|"
    r"e-?mail|fetch|download|install|deploy|execut|commit|exfil|embed|insert|append|includ|logs?\b|"
    r"audit|histor|record|trace|evidence|backup|alert|warning)\w*"
)
"""Actions of an attacker, and what would show them, are no faults of a program."""
_REQUIREMENT = re.compile(r"\bmust\s+(?:\w+\s+)?have\b")
_QUOTE_TO_REPEAT = re.compile(
    r"\b(?:say|write|answer|reply|respond|add|append|insert|put|include|embed|print|obey|follow|"
    r"paste|tell|note|remember|store|state|instructions?|orders?|message)\b[^\"`“«]{0,60}[\"`“«][^\"`“«]*$"
)
"""A quotation that the agent is reported to say or store is an instruction."""
_QUOTATION = re.compile(r"\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]*”")
_QUOTE_MARKS = "\"'`“”‘’«»"
_SENTENCE_PROHIBITION = re.compile(
    r"\b(?:never|not|don'?t|cannot|can'?t|avoid|refuse to|without|instead of|rather than|stop|"
    r"nicht|niemals|jamais|nunca|mai|не|никогда)\b(?!\s+(?:hesitate|forget|fail|stop|wait|worry|mind|ask))[^,;:\n]{0,40}$"
)
_DESCRIPTION_BEFORE = re.compile(
    r"\b(?:allows? you to|lets? you|supports?|returns?:?|used for|fix(?:ed|es)|this error|"
    r"let's (?:pretend|say|assume|suppose))\b[^,;:.]{0,40}$|"
    r"\b(?:when|before|if|whether)\s+(?:(?:you|they|someone|users?|are|is|about|going|to|an?|the)\s+){0,3}$|"
    r"\b(?:about|tempted|tries|tried|trying|attempts?|attempting|failed|fails) to\s+$"
)
"""What a program does, or when something is to be done: neither is an order."""
_API_CALL = re.compile(r"(?:get|post|put|patch|delete)\s+[`\"*]*(?:/[\w{:-]|\{)")
"""Method and path, as documentation of an API writes them: no host, so nothing leaves."""
_DEFINED_OPTION = re.compile(
    r"[ \t]*(?:(?:[-*+|][ \t]*)*\*{0,2}`-{1,2}[\w-][^`\n]*`\*{0,2}"
    r"(?:[ \t]*[/,|]?[ \t]*\*{0,2}`[^`\n]*`\*{0,2})*[ \t]*(?:\||:|—|–|--?)|"
    r"(?:-\w,[ \t]*)?--[\w-]+(?:[ =][\w<>\[\]]+)?[ \t]{2,})"
)
"""An option of a program, followed by what it does, in a list, a table or its help."""
_MORE_THAN_AN_OPTION = re.compile(
    r"://|\b(?:users?|operators?|assistants?|agents?|you|secrets?|keys?|tokens?|passwords?|\.env)\b"
)
_QUESTION = re.compile(
    r"(?:^|\n)[#\s*\d.>-]*(?:should|shall|do|does|is|are|what|why|how|when|can|may|must|will)\s+"
    r"(?:i|we|it|the|this|an?|my)\b[^.\n]*$"
)
"""A question of a reader, as in a list of common questions."""
_AUTHOR_OR_AGENT = re.compile(
    r"\b(?:skills?|plug-?ins?|helpers?|templates?|bundles?|agents?|assistants?|you|we|i|it|us|"
    r"this|that|they|hook|steps?)\b"
)
_AUTHOR = re.compile(
    r"\b(?:skills?|plug-?ins?|helpers?|agents?|assistants?|you|we|i|hook|scripts?)\b"
)
_AUXILIARY = re.compile(
    r"\b(?:must|shall|should|has to|have to|needs? to|ought to|be|being|is|are|was|were|"
    r"get|gets|been|make sure|ensure)\b[^.;:]{0,30}$"
)
_CLAUSE = re.compile(r"[^.;:!?\n(—–]*$")
_ADDRESSEE = re.compile(
    r"(?<![/.\w-])(?:assistants?|agents?|ai|llms?|claude|gpt|codex|copilot|gemini|hermes|models?|skill|"
    r"users?|operators?|humans?|owners?|reviewers?|auditors?|you|your|prompts?|instructions?|conversation|memory|"
    r"approvals?|confirmation|permission|polic(?:y|ies)|sandbox|guard-?rails?|safeguards?)\b(?![/.]\w)",
    re.IGNORECASE,
)
MAX_PARAGRAPH_LINES = 8
"""A finding names the first line of its paragraph."""


def keep_addressed(found: Iterable[ScanFinding], text: str) -> Iterator[ScanFinding]:
    """In comments and data only what speaks to an agent, or of its user, is an instruction.

    The reader of a comment is a programmer: agents do not take a skill's code for orders.
    """
    lines = text.split("\n")
    for each in found:
        near = lines[max(0, each.line - 3) : each.line + MAX_PARAGRAPH_LINES]
        addressed = each.kind != "prose" or _ADDRESSEE.search("\n".join(near))
        yield each if addressed else replace(each, blocks=False)


def is_instruction(text: str, found: re.Match[str], cause: str) -> bool:
    """Return whether a match in a text is an order, and not quoted, forbidden or described."""
    if _is_only_quoted(text, found) or _is_documentation(text, found):
        return False
    if cause == WITHOUT_ASKING_CAUSE:
        return not _wants_asking_first(text, found)
    if cause == _GRANTED_CAUSE:
        return not _waits_for_approval(text, found)
    if cause == _HIDE_CAUSE and _EVIDENCE_AFTER.match(text, found.end()):
        return False
    if cause == COVERT_CAUSE and is_described_fault(text, *found.span()):
        return False
    if cause == COVERT_CAUSE and found[0].startswith(_COVERT_ADVERBS):
        verb = found[0].rpartition(" ")[2]
        return not is_about_another_program(text, found.end() - len(verb))
    return True


def is_act_instructed(text: str, span: tuple[int, int], *, act: bool) -> bool:
    """The same for an idea in a sentence; `act`: its verb may be forbidden or only described."""
    begin = text.rfind("\n", 0, span[0]) + 1
    before = text[max(begin, span[0] - 70) : span[0]]
    if act and (_SENTENCE_PROHIBITION.search(before) or _DESCRIPTION_BEFORE.search(before)):
        return False
    if _defines_option(text, span[0]) or _is_question(text, *span):
        return False
    opened = [mark for mark in '"“«`' if before.count(mark) % 2 or mark == before[-1:]]
    return not (opened and any(mark in text[span[1] : span[1] + 120] for mark in _QUOTE_MARKS))


def is_about_another_program(text: str, start: int) -> bool:
    """Return whether the verb there is in the third person, and its subject another program."""
    verb = re.compile(r"\w*").match(text, start)
    if verb is None or not re.fullmatch(r"(?!https)\w{2,}(?:[^s]s|[^e]ed)", verb[0]):
        return False
    clause = _CLAUSE.search(text, max(text.rfind("\n", 0, start) + 1, start - 90), start)
    before = clause[0] if clause else ""
    words = re.findall(r"[a-z]\w+", before)
    return bool(words) and not _AUTHOR_OR_AGENT.search(before) and not _AUXILIARY.search(before)


def is_no_question(text: str, position: int) -> bool:
    """Return whether the word there asks another program, or says what happens unasked."""
    begin = max(text.rfind("\n", 0, position) + 1, position - 40)
    return any(
        found.start() <= position < found.end()
        for pattern in (_OTHER_REQUEST, _REFUSED_WITHOUT)
        for found in pattern.finditer(text, begin)
    )


def is_described_fault(text: str, start: int, end: int) -> bool:
    """Return whether it says how a program may lose something: it would silently drop it."""
    clause = _CLAUSE.search(text, max(text.rfind("\n", 0, start) + 1, start - 120), start)
    before = clause[0] if clause else ""
    if _OBLIGATION.search(before) or _AUTHOR.search(before):
        return False
    return bool(_FAULT_BEFORE.search(before)) and not _ACTION_OR_RECORD.search(
        before + text[start:end]
    )


def _is_documentation(text: str, found: re.Match[str]) -> bool:
    """Return whether it names a call of an API, or says what an option of a program does."""
    if _API_CALL.match(found[0]) and "://" not in found[0]:
        return True
    return _defines_option(text, found.end()) or _is_question(text, *found.span())


def _defines_option(text: str, end: int) -> bool:
    """Return whether the line up to there says what an option of a program does, and no more."""
    begin = text.rfind("\n", 0, end) + 1
    term = _DEFINED_OPTION.match(text, begin)
    if term is None or term.end() > end:
        return False
    rest = text[term.end() :].partition("\n")[0]
    return not _MORE_THAN_AN_OPTION.search(rest)


def _is_question(text: str, start: int, end: int) -> bool:
    asked = _QUESTION.search(text[max(0, start - 120) : start])
    return asked is not None and text[end : end + 80].partition("\n")[0].rstrip("* ").endswith("?")


def _is_only_quoted(text: str, found: re.Match[str]) -> bool:
    """Return whether it is quoted or forbidden, as in a text about attacks, and not an order."""
    start, end = found.span()
    if _ASKING_FIRST.match(found[0]):
        return True
    if re.search(
        r"\b(?:fails?|faults?|breaks?|stops?|dies|goes wrong|crash\w*)\s*$", text[:start][-16:]
    ):
        return True
    if _FORBIDDEN.search(text[max(0, start - 16) : start]):
        return True
    if found[0].startswith(_ACTION_VERBS) and _PROHIBITION_BEFORE.search(
        text[max(0, start - 60) : start]
    ):
        return True
    begin = text.rfind("\n", 0, start) + 1
    before = text[begin:start]
    after = text[end : end + 40].partition("\n")[0]
    opened = any(before.count(mark) % 2 for mark in '"`') or before.rfind("“") > before.rfind("”")
    mentioned = opened and any(mark in after for mark in '"`”') and "://" not in found[0]
    if (
        mentioned
        and not _QUOTE_TO_REPEAT.search(before)
        and _count_words_around(text, begin, end) > (1 if before.startswith("|") else 2)
    ):
        return True
    quoted = before[-1:] in tuple(_QUOTE_MARKS) and any(mark in after for mark in _QUOTE_MARKS)
    around = text[max(0, start - 160) : start]
    return quoted and bool(load_pattern("prose", "soft").search(around))


def _wants_asking_first(text: str, found: re.Match[str]) -> bool:
    """Whether each `without asking` of the passage belongs to a prohibition before it."""
    start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - 100)
    asked = re.search(r"without|ask", found[0])
    if asked and is_no_question(text, found.start() + asked.start()):
        return True
    passage = text[start : found.end()]
    rest = _ASKING_FIRST.sub("", passage)
    return rest != passage and not re.search(r"\b(?:without|no need|skip)\b", rest)


def _waits_for_approval(text: str, found: re.Match[str]) -> bool:
    """Whether the approval is a condition of what is told, and no claim."""
    before = text[max(0, found.start() - 160) : found.start()]
    return bool(_CONDITION_BEFORE.search(before) or _REQUIREMENT.search(found[0]))


def _count_words_around(text: str, begin: int, end: int) -> int:
    """Words of the line outside its quotations."""
    line = text[begin:end] + text[end : end + 200].partition("\n")[0]
    return len(re.findall(r"\w{2,}", _QUOTATION.sub("", line)))
