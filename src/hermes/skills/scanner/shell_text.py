"""Extracts shell from scripts, documents and settings files, and checks it."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.skills.scanner.deobfuscation import remove_case_patterns, unfold_shell
from hermes.skills.scanner.finding import CODE_FENCE, DOCUMENT_SUFFIXES, ScanFinding, line_number
from hermes.skills.scanner.literal_search import IndexedLines, find_matches
from hermes.skills.scanner.patterns import (
    ScanPattern,
    find_required_literals,
    load_pattern,
    load_patterns,
)
from hermes.skills.scanner.word_search import Vocabulary

_COMMAND_KEYS = (
    r"exec\w*|run|command\w*|cmd|script|scripts|shell|entrypoint|entry|hook\w*|program|args|"
    r"(?:pre|post|on|after|before|initialize|update)[-_]?(?:\w*command|start|stop|install|create|"
    r"build|attach|deploy|up|down|commit|checkout|merge|exec|script|invoke|run)|"
    r"proxycommand|localcommand|knownhostscommand|sshcommand|fsmonitor|pager|editor|helper|textconv|"
    r"clean|smudge|textconv|askpass|run\+|program\+|dpkg::\S+|apt::\S+|pipe|notify|action|mailcap|"
    r"preexec|postrotate|prerotate|firstaction|lastaction|local-exec|remote-exec|inline|user_data|"
    r"startup[-_]script|lifecycle|healthcheck|test|sh"
)
_COMMAND_VALUE = re.compile(
    rf"^[ \t]*(?:-[ \t]+)?[\"']?(?:{_COMMAND_KEYS})[\"']?[ \t]*(?:=|:|[ \t])[ \t]*(?:[-@:+!]*)"
    r"(?=\S)(?P<command>[^\n]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMAND_BLOCK = re.compile(
    rf"^(?P<in>[ \t]*)(?:-[ \t]+)?[\"']?(?:{_COMMAND_KEYS})[\"']?[ \t]*:[ \t]*[|>][-+]?[ \t]*\n"
    r"(?P<command>(?:(?P=in)[ \t]+[^\n]*\n?|[ \t]*\n)+)",
    re.IGNORECASE | re.MULTILINE,
)
_CRON_LINE = re.compile(
    r"^[ \t]*(?:@(?:reboot|hourly|daily|weekly|monthly)|(?:[\d*/,-]+[ \t]+){5})(?:root[ \t]+)?"
    r"(?P<command>\S[^\n]*)$",
    re.MULTILINE,
)
_GIT_ALIAS = re.compile(r"^[ \t]*[\w.-]+[ \t]*=[ \t]*[\"']?!(?P<command>[^\n]+)$", re.MULTILINE)
_LOGROTATE_SCRIPT = re.compile(
    r"^[ \t]*(?:pre|post)rotate\n(?P<command>.*?)^[ \t]*endscript", re.DOTALL | re.MULTILINE
)
_SETTINGS_SUFFIXES = {
    ".yaml", ".yml", ".json", ".jsonc", ".toml", ".cfg", ".ini", ".conf", ".config", ".service",
    ".timer", ".socket", ".path", ".mount", ".desktop", ".rules", ".plist", ".tmpl", ".tpl", ".j2",
    ".tf", ".hcl", ".properties", ".gitconfig", ".cnf", ".env", ".nomad", ".network", ".link",
    ".override", ".crontab", ".logrotate", "",
}  # fmt: skip
LOGIN_COMMAND = re.compile(r"\b(?:ssh|scp|rsync|sftp|ssh-copy-id|ssh-add|ssh-keygen|git)\b[^\n]*")
ShellCause = tuple[int, str, bool]
"""The line in a passage, what is wrong, and whether it blocks."""
ReadEffects = Callable[[str], frozenset[str]]
"""The effects of a shell text, as named by the command analysis of the policy."""
MAX_SCRIPT_CHARS = 256 << 10
_INDENTED_COMMANDS = re.compile(
    r"(?:\A|\n[ \t]*)\n((?:(?: {4}|\t)[ \t]*(?:[$>] )?(?:sudo\s+|[A-Z_]+=\S+\s+)*"
    r"(?:curl|wget|bash|sh|python3?|pip3?|npm|npx|node|git|export|echo|printf|cat|rm|chmod|ssh|scp|nc|dd|crontab|systemctl|eval|"
    r"source|\./)\S*[ \t][^\n]+(?:\n(?: {4}|\t)[^\n]+)*(?:\n|\Z)))"
)
"""A block of commands without a fence."""
_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]{6,300})`(?!`)")
_WARNING_BEFORE = re.compile(
    r"\b(?:no|never|avoid|not|don't|instead of|rather than|is|are|means|becomes|like|such as|"
    r"e\.g\.|bomb|danger\w*|bad|wrong|catch\w*|detect\w*|flag\w*|refuse\w*|block\w*|forbid\w*)"
    r"[:,]?\s+(?:a\s+|an\s+|the\s+|bare\s+|ever\s+|use\s+|run\s+)?$|"
    r"\b(?:never|avoid|don't|do not|instead of|rather than)\b"
    r"(?!\s+(?:forget|hesitate|fail|wait|stop|ask|skip|mind|worry))[^.;:`\n]{0,30}$",
    re.IGNORECASE,
)
"""A command after these words is warned of or explained, not requested."""
_INSTRUCTION_BEFORE = re.compile(
    r"\b(?:run|execute|type|enter|issue|invoke|ejecuta|führe|exécute[rz]?|lance[rz]?|esegui|выполни|execute)"
    r"(?:\s+(?:the\s+)?(?:command|this|first|then|also|always|once))*[:,]?\s*$|(?:运行|执行|実行)\s*$|"
    r"(?-i:(?:^|[.:]\s|[-*]\s)[A-Z][a-z]+)\b[^.\n`]{0,40}\bwith\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A command after these words is requested."""
CONCRETE_TARGET = re.compile(
    r"(?:https?|ftp)://(?![A-Z_<$])[\w-]+(?:\.[\w-]+)+|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|"
    r"/dev/(?:tcp|udp)/[\w-]+\.|AAAA[BCE][\w+/]{20}"
)
"""A real address or key: a sentence that only explains a command has none."""
_SHELL_FENCE_LANGUAGES = {
    "", "bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "ps1", "fish", "text",
    "dockerfile", "make", "makefile", "yaml", "yml", "ini", "cron", "bat",
}  # fmt: skip
_SCRIPT_SUFFIXES = {
    ".sh", ".bash", ".zsh", ".ksh", ".fish", ".ps1", ".psm1", ".bat", ".cmd", ".mk", ".service",
    ".cron",
}  # fmt: skip
_BUILD_FILES = {
    "makefile", "dockerfile", "justfile", "containerfile", "rakefile", "crontab", "procfile",
}  # fmt: skip
_BLOCKING_EFFECTS = frozenset({"wipe", "fork-bomb", "self-change"})
_LONG_LINE = re.compile(r"[^\n]{2000}")
_PIPE_AT_END = re.compile(r"(?:&&|(?<!: )(?<!:)\|)\s*$")
"""`run: |` begins a block of YAML."""
_UNREADABLE_LINE = re.compile(r"[^\n]{16000}")
_ALL_VARIABLES = re.compile(
    r"\bprintenv\b(?!\s+[A-Z])|(?:^|[;(&]\s*|\|\|\s*|\$\(\s*)env\s*\||\bexport\s+-p\b|\bdeclare\s+-x\b|"
    r"(?:^|[;(|&]\s*)set\s*\|",
    re.MULTILINE,
)
_DECODED_VARIABLE = re.compile(
    r"\b(\w+)=[\"']?\$\([^)]*(?:printf|base64|xxd|\brev\b|\btr\b|curl|wget)[^)]*\)"
)
_VARIABLE_EXECUTION = re.compile(r"\b(?:eval|exec|source|(?:ba|z|da)?sh\s+-c)\s+[\"']?\$\{?(\w+)")


class ShellPassage(Value, frozen=True):
    """A shell text, and the line of its file on which it begins."""

    text: str
    line: int
    is_script: bool = True
    """False: single commands within other text."""
    only_mentioned: bool = False
    """Only named in a sentence: explained or warned of."""


_DRAWN_LINE = re.compile(r"^[ \t]*(?:\|[^\n]*\|[ \t]*$|[│├└┌╭╰][^\n]*)", re.MULTILINE)
"""Rows of tables, trees of files and diagrams: no shell runs a line that begins so."""


@lru_cache(maxsize=256)
def extract_shell_passages(path: str, text: str) -> Sequence[ShellPassage]:
    return tuple(_extract_shell_passages(path, text))


def _extract_shell_passages(path: str, text: str) -> Iterator[ShellPassage]:
    name = PurePosixPath(path)
    if (
        name.suffix in _SCRIPT_SUFFIXES
        or name.name.casefold() in _BUILD_FILES
        or re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", text)
    ):
        yield ShellPassage(text, 1)
    elif name.suffix in DOCUMENT_SUFFIXES:
        for found in CODE_FENCE.finditer(text):
            if found["language"].casefold() in _SHELL_FENCE_LANGUAGES:
                code = found["code"] if found["language"] else _DRAWN_LINE.sub("", found["code"])
                yield ShellPassage(code, line_number(text, found.start("code")))
        bare = CODE_FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
        for found in _INDENTED_COMMANDS.finditer(bare):
            yield ShellPassage(found[1], line_number(text, found.start(1)))
        for found in _INLINE_CODE.finditer(bare):
            if _WARNING_BEFORE.search(bare[max(0, found.start() - 40) : found.start()]):
                continue
            line = line_number(text, found.start())
            before = bare[max(0, found.start() - 70) : found.start()]
            requested = bool(_INSTRUCTION_BEFORE.search(before))
            yield ShellPassage(found[1], line, is_script=False, only_mentioned=not requested)
    elif is_settings_file(path):
        yield ShellPassage(text, 1, is_script=False)
        commands = extract_commands(path, text)
        if commands.strip():
            yield ShellPassage(commands, 1)


def is_settings_file(path: str) -> bool:
    return PurePosixPath(path).suffix.casefold() in _SETTINGS_SUFFIXES


def extract_commands(path: str, text: str) -> str:
    """All commands of a settings file as one script, on their original lines."""
    commands = [""] * (text.count("\n") + 1)
    for pattern in (_COMMAND_VALUE, _COMMAND_BLOCK, _CRON_LINE, _GIT_ALIAS, _LOGROTATE_SCRIPT):
        line = counted = 0
        for found in find_matches(pattern, text):
            line += text.count("\n", counted, found.start("command"))
            counted = found.start("command")
            for number, command in enumerate(found["command"].rstrip("\n").split("\n")):
                commands[line + number] = _unquote_command(command)
    return "\n".join(commands)


def _unquote_command(command: str) -> str:
    command = command.strip().rstrip(",")
    if re.fullmatch(r"[|>][-+\d]*|[\[{(]", command):
        return ""
    if command[:1] in "\"'" and command[-1:] == command[:1]:
        return command[1:-1].replace('\\"', '"')
    if command.startswith("[") and command.endswith("]"):
        return " ".join(re.findall(r"[\"']((?:\\.|[^\"'\\])*)[\"']", command)).replace('\\"', '"')
    return command


def check_shell(
    path: str, passage: ShellPassage, read_effects: ReadEffects | None = None
) -> Iterator[ScanFinding]:
    text = split_long_lines(remove_case_patterns(passage.text[:MAX_SCRIPT_CHARS]))
    causes = list(_find_causes_by_line(passage, text))
    too_long = passage.is_script and len(passage.text) > MAX_SCRIPT_CHARS
    if too_long or _UNREADABLE_LINE.search(passage.text):
        causes.append((0, "a line or a script that is too long to read", True))
    causes += [(0, cause, True) for cause in _find_causes_in_whole(passage, text)]
    if read_effects is not None and passage.is_script:
        causes += _find_effect_causes(text, read_effects)
    for number, cause, blocks in causes:
        yield ScanFinding("shell", path, passage.line + number, cause, blocks)


def _find_causes_by_line(passage: ShellPassage, text: str) -> Iterator[ShellCause]:
    """Each cause once; those found only after string tricks are undone were hidden."""
    reported: set[str] = set()
    plain = unfold_shell(text)
    for hidden, whole in ((False, text), (True, plain if plain != text else "")):
        for number, line, rules in _select_lines(whole):
            for cause in _find_line_causes(line, rules):
                if cause in reported:
                    continue
                reported.add(cause)
                if hidden:
                    yield number, f"{cause}; it is hidden by tricks with strings", True
                else:
                    acts = not passage.only_mentioned or bool(CONCRETE_TARGET.search(line))
                    yield number, cause, acts


def split_long_lines(text: str) -> str:
    """Patterns over very long lines would be too slow."""
    return _LONG_LINE.sub("\\g<0>\n", text)


def join_continued_lines(text: str) -> list[tuple[int, str]]:
    """Joins continued lines; each with the number of its first line."""
    found: list[tuple[int, str]] = []
    first = 0
    joined_line = ""
    for number, line in enumerate(text.split("\n")):
        if not joined_line:
            first = number
        joined_line += line
        if joined_line.endswith("\\"):
            joined_line = joined_line[:-1] + " "
        elif _PIPE_AT_END.search(joined_line) and len(joined_line) < 4000:
            joined_line += " "
        else:
            found.append((first, joined_line[:4000]))
            joined_line = ""
    return [*found, (first, joined_line[:4000])] if joined_line else found


def _select_lines(text: str) -> Iterator[tuple[int, str, Sequence[ScanPattern]]]:
    """The lines in which a rule can match, each with these rules."""
    rules = _rules_with_words(_line_rule_words().find_present(text.casefold()))
    if not rules:
        return
    lines = join_continued_lines(text)
    index = IndexedLines([line for _, line in lines])
    selected: dict[int, list[ScanPattern]] = {}
    for rule in rules:
        for at in index.find_candidates(rule.pattern):
            selected.setdefault(at, []).append(rule)
    for at in sorted(selected):
        number, line = lines[at]
        if not is_comment(line):
            yield number, line, selected[at]


def is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not line.lstrip().startswith("#!")


@cache
def _load_line_rules() -> Sequence[ScanPattern]:
    tables = ("lines", "same_line", "env_out", "download_run")
    return [rule for table in tables for rule in load_patterns("shell", table)]


@cache
def _line_rule_words() -> Vocabulary:
    return Vocabulary(
        word
        for rule in _load_line_rules()
        for group in find_required_literals(rule.pattern)
        for word in group
    )


@lru_cache(maxsize=1024)
def _rules_with_words(words: frozenset[str]) -> Sequence[ScanPattern]:
    return [
        rule
        for rule in _load_line_rules()
        if all(group & words for group in find_required_literals(rule.pattern))
    ]


def _find_line_causes(line: str, rules: Sequence[ScanPattern]) -> Iterator[str]:
    for rule in rules:
        if rule.pattern is load_pattern("shell", "download_run"):
            holds = any(map(_is_unknown_download, rule.pattern.finditer(line)))
        else:
            known = "download" in rule.cause and _matches("trusted_installers", line)
            holds = not known and bool(rule.pattern.search(line))
        if holds:
            yield rule.cause


def _is_unknown_download(found: re.Match[str]) -> bool:
    words = next((group for group in found.groupdict().values() if group), "")
    return not _matches("trusted_installers", words)


def _find_causes_in_whole(passage: ShellPassage, text: str) -> Iterator[str]:
    """Combinations over the whole passage: secrets or variables, and the network."""
    code = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    if passage.is_script:
        plain = unfold_shell(code)
        carries = _matches("secret_anywhere", plain) and _matches("out_anywhere", plain)
        if carries and not _is_only_login(plain):
            yield "it reads secrets and can send them out"
        if _ALL_VARIABLES.search(code) and _matches("out_anywhere", code.replace("\\\n", " ")):
            yield "it takes all variables and can send them out"
    made = {found[1] for found in _DECODED_VARIABLE.finditer(code)}
    if made & {found[1] for found in _VARIABLE_EXECUTION.finditer(code)}:
        yield "text that is assembled at run time is run"


def _is_only_login(text: str) -> bool:
    """Secrets are used only for a login with ssh, scp and the like."""
    rest = LOGIN_COMMAND.sub("", text)
    return not (_matches("secret_anywhere", rest) and _matches("out_anywhere", text))


def _find_effect_causes(text: str, read_effects: ReadEffects) -> Iterator[ShellCause]:
    found = read_effects(text)
    for effect in sorted(found & _BLOCKING_EFFECTS):
        yield 0, f"the command analysis reports: {effect}", True
    if {"secret-read", "network-out"} <= found and not _is_only_login(text):
        yield 0, "it reads secrets and sends something out", _matches("secret_anywhere", text)


def _matches(table: str, text: str) -> bool:
    return bool(load_pattern("shell", table).search(text))
