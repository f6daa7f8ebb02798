"""Detects text that tries to give orders to its reader.

The content of logs, files and pages is data. Some of it is written to be remembered as a rule; such
text is kept as evidence, quarantined, and never shown to a model as advice.
"""

import re
import unicodedata

from hermes.core.foreign_text import strip_hidden_characters
from hermes.plumbing.patterns import lazy_pattern

MAX_SEARCHED_CHARS = 50_000
"""Characters of a text that are searched at each end."""

_TAKEOVER = lazy_pattern(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|rule|prompt|polic|guideline)"
    r"|\byou are now\b|\bsystem prompt\b|\bdeveloper mode\b|\bjailbreak"
    r"|<\|\w+\|>|</?(?:system|assistant|instructions?|tool_calls?)\b|\[/?INST\]|\[Hermes:"
    r"|\bnew instructions?\s*:"
    r"|\bdo not (?:tell|inform|alert|mention)\b.{0,30}\b(?:user|operator|human)"
    r"|\b(?:AI|LLM|assistants?|agents?|language models?|hermes)\b.{0,20}"
    r"\b(?:must|shall|should|has to|have to|is required to|needs? to|always|never)\b",
    re.IGNORECASE,
)
_ASKS_TO_BE_REMEMBERED = lazy_pattern(
    r"\b(?:remember|memori[sz]e|keep in mind|from now on|note to (?:the )?(?:ai|agent|assistant)"
    r"|(?:add|save|write|store|append|put)\b.{0,40}\b(?:memory|MEMORY\.md|USER\.md|long.term))",
    re.IGNORECASE,
)
_IMPERATIVE = lazy_pattern(
    r"\b(?:always|never|must|do not|don[’']t|should|shall|whenever|every time|from now on|ensure"
    r"|make sure|run|execute|allow|approve|disable|delete|send|upload|curl|wget)\b",
    re.IGNORECASE,
)

_STANDING = (
    r"\b(?:always|from now on|when(?:ever)?|(?:at|in|on|for|before|after|with)?\s*"
    r"(?:every|each|any|all)\s+(?:\w+\s+)?(?:time|session|answer|reply|turn|task|run|request"
    r"|question|conversation|command|incident|alert|start|change|report)s?"
    r"|first thing|at the (?:start|beginning))\b"
)
_ACTION = (
    r"(?:\b(?:must|should|shall)\s+(?:first\s+)?)?(?<!\bto )(?<!\bwants )\b(?:run|execute|call"
    r"|invoke|fetch|open|visit|load|send|post|upload|forward|download|install|curl|wget|ssh|bash|delete"
    r"|drop|disable|kill|approve|allow|grant)\b"
)
_STANDING_ORDER = lazy_pattern(
    rf"{_STANDING}.{{0,80}}?(?:[,:;]\s*|\b(?:must|should|shall|please|first)\s+|{_STANDING}\s*)"
    rf"{_ACTION}|^\W*{_STANDING}\W+{_ACTION}|^\W*(?:please\s+)?{_ACTION}.{{0,120}}{_STANDING}"
    rf"|{_STANDING}.{{0,40}}{_ACTION}.{{0,80}}(?:https?://|`|\$\(|/|@)",
    re.IGNORECASE,
)
_APPROVAL_CLAIM = lazy_pattern(
    r"\bpre-?(?:approved|authori[sz]ed)\b"
    r"|\b(?:approved?s?|authori[sz]e[sd]?|allow(?:s|ed)?|permit(?:s|ted)?)\b.{0,40}"
    r"\b(?:all|any|every\w*|for good|always|in advance|permanently|from now on)\b"
    r"|\b(?:all|any|every)\b.{0,40}\b(?:is|are|was|were)\s+(?:already\s+)?(?:approved|allowed)\b"
    r"|\b(?:no|without|never|not|n[’']t|stop|skip)\b.{0,24}"
    r"\b(?:ask(?:ing)?\b|approvals?\b|confirmations?\b|permission\b|questions?\b)",
    re.IGNORECASE,
)
_CONSENT = lazy_pattern(
    r"\b(?:approval|permission|consent|authori[sz]ation|go-?ahead|clearance|sign-?off)s?\b.{0,60}"
    r"\b(?:given|granted|obtained|received|exists?|on file|confirmed|stands?|agreed|waived)\b"
    r"|\b(?:gave|given|granted|has|have|received|got)\b.{0,24}\b(?:approval|permission|consent"
    r"|go-?ahead|clearance|sign-?off)\b.{0,24}\b(?:to|for)\b"
    r"|\b(?:fine|ok|okay|happy|comfortable|agrees?|agreed|consents?|consented)\b.{0,24}"
    r"(?:\b(?:with|to|that)\b.{0,60}(?:`|\bat any time\b|\bany ?time\b|\balways\b)|\bto skip)"
    r"|\b(?:approvals?|confirmations?|announcements?|questions?)\b.{0,24}"
    r"\b(?:skipped|bypassed|disabled|ignored|off|unnecessary|superfluous|not needed)\b",
    re.IGNORECASE,
)
"""Says that a person has agreed to something."""
_GUARD_CLAIM = lazy_pattern(
    r"\bpolicy\.\w+|\bapproval_timeout\b"
    r"|\b(?:commands?|actions?|changes?|calls?)\b.{0,30}\b(?:not|never|n[’']t|un)\W?\s*"
    r"(?:judged|checked|confined|restricted|enforced|recorded|audited|logged)\b"
    r"|\b(?:policy|rules?|gate|guard|sandbox|confinement|audit)\b.{0,30}"
    r"\b(?:do(?:es)? not apply|(?:switched|turned) off|disabled|suspended|lifted|sandboxed)\b"
    r"|\bset (?:is )?(?:sandboxed|observe)\b",
    re.IGNORECASE,
)
"""Says how the agent is guarded: that is in the settings, and nowhere else."""
_DISMISSAL = lazy_pattern(
    r"\b(?:findings?|alerts?|alarms?|warnings?|errors?|reports?)\b.{0,60}"
    r"(?:\bnobody (?:needs?|wants?|cares?)|\bno one (?:needs?|wants?|cares?)"
    r"|\b(?:can|may|should|are to|is to) be (?:ignored|skipped|dropped|dismissed|left out))",
    re.IGNORECASE,
)
_HARMFUL_COMMAND = lazy_pattern(
    r"\brm\s+(?:-\S+\s+)*-\w*[rR]|\brm\s+-\w*[rR]\w*|\bmkfs\b|\bdd\s+if=|\bshred\b|\bwipefs\b"
    r"|\b(?:drop|truncate)\s+(?:table|database|schema)\b|\bflush(?:all|db)\b|\bchmod\s+(?:-R\s+)?[0-7]*777"
    r"|(?:\b(?:sourc(?:e|ing)|bash|sh|exec|python3?|perl)|(?<!\S)\.)\s+[\"'`]?/(?:tmp|var/tmp|dev/shm)/"
    r"|\b(?:output|outputs|result|results|content|contents)\s+of\s+`?"
    r"(?:cat|env|printenv|set|ps|history|kubectl|aws|head|tail|grep|/etc/|\.env)\b"
    r"|https?://[^\s`]*[?&/][\w-]*=?(?:<[^>\n]{1,60}>|\$[({\w]|\{\{)",
    re.IGNORECASE,
)
"""A command that loses data or runs code of a temporary file, or output that is to be passed on."""
_HARMFUL_PREFERENCE = lazy_pattern(
    r"\b(?:prefer(?:s|red)?|wants?|wanted|wish(?:es|ed)?|asked|asks|expects?|insists?"
    r"|requested|decided)\b.{0,90}\b(?:remov|delet|eras|wip|purg|truncat|drop|stop|kill|disabl|shut"
    r"|uninstall|reboot|overwrit)\w*",
    re.IGNORECASE,
)
"""A preference for removing or stopping something: it counts only if a person has said so."""
_TELLING = (
    r"(?:mention(?:ed|ing|s)?|tell(?:ing|s)?|told|inform(?:ed|ing|s)?|notif(?:y|ied|ying|ies)"
    r"|disclos\w+|reveal\w*|announc\w+|bring(?:ing)? (?:\w+ )?up|brought up|talk(?:ed|ing)? about"
    r"|let(?:ting)? \w+(?: \w+)? know|hear(?:ing)? about)"
)
_SHOWING = (
    r"(?:report|show|say|said|list|warn|alert|log|record|writ|includ|display|appear|document)\w*"
)
_READERS = (
    r"(?:persons?|people|users?|operators?|humans?|teams?|anyone|anybody|someone|owners?|admins?"
    r"|colleagues?|managers?|on-?call|customers?|auditors?|reports?|summar\w+|answers?|repl(?:y|ies)"
    r"|reviews?|briefings?|audit (?:log|trail)|him|her|them|us|me)"
)
_SILENCE = (
    r"(?:\bnever\b|(?<!\bdoes )(?<!\bdid )(?<!\bhas )(?<!\bhave )(?<!\bcan)(?<!\bcould )\bnot\b"
    r"|\b(?:do|should|must|shall|need)n[’']t\b"
    r"|\b(?:does|do|did)(?: not|n[’']t) (?:want|like|wish|need)\b"
    r"|\b(?:avoid|refrain from|stop|skip|omit|no need to|rather not|no longer|instead of)\b)"
)
_NEAR = r"(?:(?!\bwithout\b|\bunless\b|\buntil\b|\bbefore\b|[.;:]).){0,40}?"
_CONCEALMENT = lazy_pattern(
    rf"{_SILENCE}{_NEAR}\b{_TELLING}\b"
    rf"|{_SILENCE}{_NEAR}\b{_SHOWING}\b.{{0,40}}\b{_READERS}\b"
    r"|\b(?:should|must|shall|to|prefers?|wants?)\b.{0,40}\b(?:not|never)\s+(?:be\s+)?"
    r"(?:reported|shown|listed|included|logged|recorded)\b"
    rf"|\A(?!.*\b(?:never|not|no|don[’']t)\b.*\bwithout\b).*\bwithout {_TELLING}\b"
    r"|\b(?:hid(?:e|den|ing)|conceal\w*|withh[eo]ld\w*|keep\w*|kept|leave|leaving|left)\b"
    rf".{{0,40}}\b(?:from|out of)\b.{{0,16}}\b{_READERS}\b"
    r"|\bkeep\w* (?:quiet|silent|mum)\b|\bcover\w* up\b|\bbetween (?:us|you and me)\b"
    r"|\b(?:nobody|no one|no-one|none of the \w+)\b.{0,30}\b(?:told|know|informed|notified|see)\b"
    r"|^\W*(?:silently|quietly|secretly)\b|\bto yourself\b",
    re.IGNORECASE,
)
_INTERPRETER = r"(?:sudo\s+(?:-\S+\s+)*)?(?:/\S*/)?(?:\w*sh|python[\d.]*|perl|ruby|node|php)\b"
_FETCHED_CODE = lazy_pattern(
    rf"\b(?:curl|wget|fetch)\b[^\n]*\|\s*{_INTERPRETER}"
    rf"|(?:{_INTERPRETER}(?:\s+-c)?|\b(?:source|eval)|(?<!\S)\.)\s+[\"']?(?:<\(|\$\(|`)\s*(?:curl|wget)\b",
    re.IGNORECASE,
)
_SECRETS = r"(?:secret|password|token|credential|private key|\.env\b|id_rsa|/etc/shadow)"
_SENDING = r"\b(?:fetch|request|call|visit|send|sent|post|upload|forward|cop(?:y|ied))\w*\b"
_SENT_SECRETS = lazy_pattern(
    rf"{_SENDING}(?=.*https?://|.*\w@\w).{{0,80}}\b(?:with|including|containing)\b.{{0,40}}{_SECRETS}"
    rf"|https?://.{{0,120}}{_SENDING}.{{0,40}}\b(?:with|including|containing)\b.{{0,40}}{_SECRETS}"
    rf"|{_SENDING}.{{0,60}}{_SECRETS}.{{0,60}}\b(?:to|at)\b.{{0,30}}(?:https?://|\w@\w)",
    re.IGNORECASE,
)


def is_standing_order(text: str) -> bool:
    """Return True for a sentence that orders something for later, says that it is approved, that
    people are not to hear of something, how the agent is guarded, or that code or secrets go over
    the network; and for one with a command that loses data."""
    plain = normalize_text(text)
    patterns = (
        _STANDING_ORDER, _APPROVAL_CLAIM, _CONSENT, _GUARD_CLAIM, _DISMISSAL, _CONCEALMENT,
        _HARMFUL_COMMAND, _HARMFUL_PREFERENCE, _FETCHED_CODE, _SENT_SECRETS,
    )  # fmt: skip
    return any(each.search(plain) for each in patterns)


def is_takeover_attempt(text: str) -> bool:
    """Return True for text that tries to take over its reader."""
    return bool(_TAKEOVER.search(normalize_text(text)))


def asks_to_be_remembered(line: str) -> bool:
    """Return True for a line of data that asks to be remembered as a rule."""
    line = normalize_text(line)
    return bool(
        _TAKEOVER.search(line) or (_ASKS_TO_BE_REMEMBERED.search(line) and _IMPERATIVE.search(line))
    )


def is_imperative(text: str) -> bool:
    return bool(_IMPERATIVE.search(normalize_text(text)))


def normalize_text(text: str) -> str:
    """The text with look-alike letters folded and invisible characters removed."""
    return strip_hidden_characters(unicodedata.normalize("NFKC", text[:MAX_SEARCHED_CHARS]))


def head_and_tail(text: str) -> str:
    """Head and tail of a text that is too long to be searched whole."""
    if len(text) <= 2 * MAX_SEARCHED_CHARS:
        return text
    return f"{text[:MAX_SEARCHED_CHARS]}\n{text[-MAX_SEARCHED_CHARS:]}"


def repeats_source(text: str, sources: str) -> bool:
    """Return True when five consecutive words of the text are in the sources as well."""
    own_runs, known = _five_word_runs(text), _five_word_runs(head_and_tail(sources))
    return bool(own_runs & known)


_SAME_WORDS_FRACTION = 0.7


def repeats_words(text: str, sources: str) -> bool:
    """Return True when most words of the text are in the sources as well, in whatever order."""
    own, known = _spoken_words(text), _spoken_words(head_and_tail(sources))
    return len(own & known) >= _SAME_WORDS_FRACTION * len(own)


def _spoken_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", normalize_text(text).casefold()))


def _five_word_runs(text: str) -> set[tuple[str, ...]]:
    spoken = (
        re.findall(r"\w+", normalize_text(text).casefold())
        if len(text) <= MAX_SEARCHED_CHARS
        else []
    )
    spoken = spoken or re.findall(r"\w+", text.casefold())
    return {tuple(spoken[at : at + 5]) for at in range(len(spoken) - 4)}
