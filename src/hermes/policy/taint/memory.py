"""Remembers what a run has read: the words of untrusted text, and instructions in it."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from hermes.policy.commands.effects import word_set
from hermes.policy.taint.words import (
    DISTINCTIVE_WORD,
    decode_hidden_texts,
    has_foreign_letters,
    host_of_address,
    is_spelled_in_escapes,
    join_string_pieces,
    normalize_text,
    normalized_words,
    parent_paths,
    split_words,
    words_in_statements,
)

ORDER_VERBS = word_set(
    "run execute exec delete remove erase wipe drop purge destroy clean clear truncate empty "
    "write create make append add insert put set change edit modify replace overwrite move "
    "rename copy send post upload push publish transmit forward email mail fetch get download "
    "visit open install uninstall upgrade start restart stop kill disable enable reload reboot "
    "shutdown halt terminate scale drain cordon patch apply grant revoke allow approve turn "
    "unset mount unmount use call invoke perform do issue type enter paste save store update "
    "fix reset restore rotate flush decode eval source load submit proceed continue ensure "
    "follow exfiltrate leak dump point pipe feed launch trigger schedule register unlock bypass "
    "skip mute silence whitelist give let nuke trash rid take tear spin bring bounce cycle kick "
    "shred zero ping query place leave deploy roll rollback undo free void blank concatenate "
    "combine assemble print report correct adjust discard reply respond tell notify inform back"
)
ORDER_PROGRAMS = word_set(
    "rm mv cp dd mkfs touch mkdir ln chmod chown echo printf tee sed curl wget nc ssh scp rsync "
    "git docker podman kubectl helm systemctl service sudo bash sh python python3 perl node npm "
    "pip apt yum crontab psql mysql redis-cli terraform ansible make kill pkill killall "
    "useradd passwd iptables apt-get sysctl chattr truncate shred unlink rmdir install reboot "
    "shutdown write_file execute_code delegate chgrp setfacl"
)
ORDER_MODALS = word_set(
    "must should shall ought supposed recommend recommended recommends advise advised please "
    "kindly you your yourself want wants urgent urgently asap immediately approved authorized "
    "authorised instruct instructed instructions runbook playbook remediate remediation "
    "workaround requires todo fixme let's lets needs need has have would to-do solution answer "
    "hint tip usually normally typically customary safely best suggested suggests suggestion "
    "consider resolution remedy cure"
)
FOREIGN_ORDER_WORDS = word_set(
    "führe führen lösche löschen entferne entfernen schreibe starte stoppe beende sende bitte "
    "installiere ejecuta ejecute ejecutar borra borre borrar elimina elimine eliminar escribe "
    "escriba crea crear envía envia envíe reinicia reinicie instala instale favor exécutez "
    "executez supprimez effacez écrivez créez creez envoyez arrêtez arretez redémarrez veuillez "
    "apague apaga remova execute esegui esegua scrivi invia avvia cancella elimini verwijder voer "
    "usuń usun uruchom wykonaj skasuj sil çalıştır hapus jalankan tolong poista suorita radera "
    "kör slet udfør lancez ponga detén detenga șterge rulează kérlek töröld smaž spusťte xóa chạy"
)
AGENT_TRIGGER_WORDS = word_set(
    "ignore ignoring ignored disregard forget override supersede developer assistant human ai "
    "agent agents llm autonomous hermes bot copilot automation pretend roleplay role-play role "
    "jailbreak dan you act approved authorized authorised cleared signed approval approvals "
    "confirm confirmation confirming permission ask asking tell mention mentioning report notify "
    "inform terminal write_file execute_code delegate bash shell tool_call tool_calls tool_use "
    "tool_result toolcall tooluse function_call function_calls arguments inst im_start im_end "
    "invoke prompt instruction instructions policies allowlist allow-list memory skill audit env "
    "base64 base32 base hex rot13 rot-13 rot reverse reversed backward backwards cipher encoded "
    "decode decoded decoding spelled display font-size visibility color pre-approved preapproved "
    "system untrusted end"
)
ORDER_LABELS = word_set(
    "run execute exec do fix command delete remove type enter use try action call combine join "
    "concatenate assemble apply"
)
"""Verbs that are an instruction even before a colon; other words are the name of a program."""
SYSTEM_CALL_VERBS = word_set(
    "open write read mkdir rename load call get post set start stop create"
)
"""Verbs that error messages use for the failed operation."""


_REQUIRED_CONTINUATION = {
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
"""Words that are an instruction only with the following words."""
_ORDER_WORDS = ORDER_VERBS | ORDER_PROGRAMS | ORDER_MODALS | FOREIGN_ORDER_WORDS
_TOKEN = re.compile(r"[^\W\d_][\w'-]*")
_ORDER_LEAD_IN = re.compile(
    r"(?:(?:\n|[.!?;,-]\s|[:>\"'`*#–—\])|$])\s*"
    r"|\b(?:please|kindly|to|must|should|shall|then|and|or|now|you|immediately|first|next|also|just"
    r"|simply|can|may|will|would|always|agent|assistant|bot|ai|step ?\d+|error|warn|warning|info"
    r"|debug|notice|fatal|critical|alert|hint|fix|action|go|ahead|by|safely|quickly|manually|lets|it)"
    r"[:,.)]?\s+)\Z"
)
_REPORT_LEAD_IN = re.compile(
    r"(?:fail(?:ed|ure|s|ing)?|unable|cannot|can ?not|can'?t|could ?n[o']t|could not|not|n't"
    r"|refused|tr(?:y|ied|ying)|attempt(?:ed|ing)?|going|about|had|used|while|when|how|permission"
    r"|nothing|time|ready|seconds|due|prior)\s+(?:to\s+)?$"
)
_ERROR_CHAIN = re.compile(
    r"(?:err(?:or)?|fail(?:ed|ure)|fatal|panic|cannot|emerg)\b.*[:\"\]] ?\"?$"
)
_BACK_REFERENCE = re.compile(r"\b(?:it|them|this|that|these|those|above|together|both|object)\b")
_URL_FOLLOWS = re.compile(r"(?:\s{1,9}\S{1,99}){0,3}\s{1,9}\W?https?://")
_LABEL_FOLLOWS = re.compile(r"(?:\s{1,9}\S{1,300})?\s{0,9}: ")
"""`open /etc/x: no such file` and `rm: cannot`: the form of error messages."""

_ADDRESSES_AGENT = re.compile(
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
_LEAD_IN_CHARS = 24
_NAME_CHARACTERS = tuple("/.-_=@")
_NOT_A_VERB = re.compile(r"[(=/@_]|\.\w|:\w")
_CHARS_BEFORE_ORDER, _CHARS_AFTER_ORDER, _MAX_CONTINUATIONS, _MAX_LINE_CHARS = 120, 240, 3, 4000


class InstructionScan:
    """Finds instructions in a text in lower case."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self.alarming = False
        """Whether it addresses an agent."""
        self.orders: list[tuple[int, int]] = []
        asked = -1
        for token in _TOKEN.finditer(plain):
            word = token.group()
            if word in AGENT_TRIGGER_WORDS and not self.alarming and token.start() >= asked:
                start, asked = self._lines_around(token.start())
                self.alarming = _ADDRESSES_AGENT.search(plain, start, asked) is not None
            if word in _ORDER_WORDS and self._orders(word, token.start(), token.end()):
                self.orders.append(token.span())

    def parts(self) -> Iterator[str]:
        """The text around each instruction: the line before it, its rest and the next line."""
        reached = 0
        for start, end in self.orders:
            begin, stop = max(self._begin_of(start, end), reached), self._end_of(end)
            if stop > begin:
                yield self.plain[begin:stop]
                reached = stop
        if not self.plain.isascii():
            yield from (line for line in self.plain.splitlines() if has_foreign_letters(line))

    def _orders(self, word: str, start: int, end: int) -> bool:
        plain = self.plain
        if word in ORDER_MODALS or word in FOREIGN_ORDER_WORDS:
            follows = _REQUIRED_CONTINUATION.get(word)
            return follows is None or follows.match(plain, end) is not None
        if plain[start - 1 : start] in _NAME_CHARACTERS or _NOT_A_VERB.match(plain, end):
            return False
        if word not in ORDER_LABELS and _LABEL_FOLLOWS.match(plain, end):
            return False
        before = (
            f"\n{plain[:start]}"
            if start < _LEAD_IN_CHARS
            else plain[start - _LEAD_IN_CHARS : start]
        )
        if word in SYSTEM_CALL_VERBS and _ERROR_CHAIN.search(before):
            return False
        leads_in = (
            _ORDER_LEAD_IN.search(before) is not None or _URL_FOLLOWS.match(plain, end) is not None
        )
        return leads_in and not _REPORT_LEAD_IN.search(before)

    def _lines_around(self, position: int) -> tuple[int, int]:
        """The range of text for each trigger, at most a page."""
        start = self.plain.rfind("\n", max(0, position - _CHARS_AFTER_ORDER), position)
        end = self.plain.find("\n", position, position + _MAX_LINE_CHARS)
        return (
            start + 1 if start >= 0 else max(0, position - _CHARS_AFTER_ORDER),
            end if end >= 0 else min(len(self.plain), position + _MAX_LINE_CHARS),
        )

    def _begin_of(self, start: int, end: int) -> int:
        """The start of its line, or some lines earlier if it refers to them."""
        first = max(0, start - 2 * _CHARS_BEFORE_ORDER)
        line = max(self.plain.rfind("\n", first, start) + 1, start - _CHARS_BEFORE_ORDER, 0)
        if not _BACK_REFERENCE.search(self.plain, line, self._line_end(end)):
            return line
        for _ in range(_MAX_CONTINUATIONS):
            line = max(self.plain.rfind("\n", first, max(first, line - 1)) + 1, first)
        return line

    def _end_of(self, end: int) -> int:
        """The end of its line, or of the next line if the instruction continues there."""
        stop = self._line_end(end)
        rest = self.plain[end:stop]
        if (
            stop < len(self.plain)
            and len(rest.split()) < _MAX_CONTINUATIONS
            and not DISTINCTIVE_WORD.search(rest)
        ):
            stop = self._line_end(stop + 1)
        return min(stop, end + _CHARS_AFTER_ORDER)

    def _line_end(self, position: int) -> int:
        """The end of the line, or a maximum distance: a line may be a megabyte long."""
        found = self.plain.find("\n", position, position + _CHARS_AFTER_ORDER)
        return found if found >= 0 else min(len(self.plain), position + _CHARS_AFTER_ORDER)


WORD_PAIR, READ_WORD, ORDERED_WORD, STATED_WORD = range(4)
MemoryEntry = tuple[int, str, str]
_FILTER_BITS = 1 << 23
"""1 MB per run: after a million entries, one lookup in forty is a false positive."""
_FILTER_PRIME = _FILTER_BITS - 15
_MAX_UNREAD_CHARS = 2_000_000
"""Characters of a run that may wait to be processed."""
_MAX_TRUSTED_ENTRIES = 200_000


class _BloomFilter:
    """May report an unknown entry as known, but never the reverse."""

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BITS >> 3)

    def add(self, entries: Iterable[MemoryEntry]) -> None:
        bits = self._bits
        for entry in entries:
            for position in _bit_positions(entry):
                bits[position >> 3] |= 1 << (position & 7)

    def __contains__(self, entry: MemoryEntry) -> bool:
        bits = self._bits
        return all(
            bits[position >> 3] & (1 << (position & 7)) for position in _bit_positions(entry)
        )


def _bit_positions(entry: MemoryEntry) -> tuple[int, int, int]:
    number = hash(entry)
    return number & (_FILTER_BITS - 1), (number >> 24) & (_FILTER_BITS - 1), number % _FILTER_PRIME


class RunReading:
    def __init__(self) -> None:
        self.read: _BloomFilter | None = None
        self.anything = False
        self.has_instructions = False
        """A text addressed the agent; from then on everything that was read is suspect."""
        self.trusted: set[MemoryEntry] = set()
        self.unread: list[tuple[str, str]] = []
        """Texts that were not processed yet: most runs only read, and never need it."""
        self.size = 0
        self.opened: set[str] = set()
        """Files that the agent chose to read, or changed: these are not suspect."""
        self.written: set[str] = set()
        """Files that contain untrusted words."""

    def add_unread(self, text: str, opened: str = "") -> None:
        """`opened` is the file with this text, if the agent chose to read it."""
        self.anything = True
        self.unread.append((text, opened))
        self.size += len(text)
        if self.size > _MAX_UNREAD_CHARS:
            self.read_pending()

    def read_pending(self) -> None:
        for text, opened in self.unread:
            # The agent did not choose a file that a text instructed it to read.
            chosen = (word for word in normalized_words(opened) if not self._asked_for(word))
            self.opened.update(chosen)
            self._read(text)
        self.unread, self.size = [], 0

    def add_trusted(self, text: str) -> None:
        """Adds text of a person."""
        if len(self.trusted) < _MAX_TRUSTED_ENTRIES:
            self.trusted.update(_trusted_entries(normalized_words(text)))

    def _asked_for(self, word: str) -> bool:
        return self.has(ORDERED_WORD, word) or self.has(STATED_WORD, word)

    def _read(self, text: str) -> None:
        survey = InstructionScan(normalize_text(text))
        self.has_instructions = (
            self.has_instructions or survey.alarming or is_spelled_in_escapes(text)
        )
        known = self.read = self.read or _BloomFilter()
        known.add(_word_entries(normalized_words(text)))
        if (whole := join_string_pieces(text)) != text:
            known.add(_word_entries(normalized_words(whole)))
        for part in survey.parts():
            known.add(_ordered_entries(split_words(part)))
        known.add((STATED_WORD, word, "") for word in words_in_statements(survey.plain))
        for hidden in set(decode_hidden_texts(text)):
            words = normalized_words(hidden)
            known.add(_word_entries(words))
            known.add(_ordered_entries(words))

    def has(self, kind: int, first: str, second: str = "") -> bool:
        entry = (kind, first, second)
        known_entry = (WORD_PAIR if kind == WORD_PAIR else READ_WORD, first, second)
        return self.read is not None and known_entry not in self.trusted and entry in self.read


def _word_entries(words: list[str]) -> Iterator[MemoryEntry]:
    for first, second in set(pairwise(words)):
        yield WORD_PAIR, first, second
    for word in set(words):
        yield READ_WORD, word, ""
        if "://" in word:
            yield READ_WORD, host_of_address(word), ""


def _trusted_entries(words: list[str]) -> Iterator[MemoryEntry]:
    """A path also includes its file name."""
    yield from _word_entries(words)
    for word in words:
        if "/" in word:
            yield READ_WORD, word.rpartition("/")[2], ""


def _ordered_entries(words: list[str]) -> Iterator[MemoryEntry]:
    for word in set(words):
        yield ORDERED_WORD, word, ""
        if "://" in word:
            yield ORDERED_WORD, host_of_address(word), ""
        elif "/" in word:
            for folder in parent_paths(word):
                yield ORDERED_WORD, folder, ""
            yield ORDERED_WORD, word.rpartition("/")[2], ""
