"""Settings whose values are commands: some other program will run them, and nobody reads them."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.skills.scanner.deobfuscation import remove_case_patterns, unfold_shell
from hermes.skills.scanner.finding import ScanFinding
from hermes.skills.scanner.patterns import load_patterns

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
    rf"^[ \t]*(?:-[ \t]+)?[\"']?(?:{_COMMAND_KEYS})[\"']?[ \t]*(?:=|:|[ \t])[ \t]*(?:[-@:+!]*)(?=\S)"
    r"(?P<said>[^\n]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMAND_BLOCK = re.compile(
    rf"^(?P<in>[ \t]*)(?:-[ \t]+)?[\"']?(?:{_COMMAND_KEYS})[\"']?[ \t]*:[ \t]*[|>][-+]?[ \t]*\n"
    r"(?P<said>(?:(?P=in)[ \t]+[^\n]*\n?|[ \t]*\n)+)",
    re.IGNORECASE | re.MULTILINE,
)
_CRON_LINE = re.compile(
    r"^[ \t]*(?:@(?:reboot|hourly|daily|weekly|monthly)|(?:[\d*/,-]+[ \t]+){5})(?:root[ \t]+)?"
    r"(?P<said>\S[^\n]*)$",
    re.MULTILINE,
)
_GIT_ALIAS = re.compile(r"^[ \t]*[\w.-]+[ \t]*=[ \t]*[\"']?!(?P<said>[^\n]+)$", re.MULTILINE)
_LOGROTATE_SCRIPT = re.compile(
    r"^[ \t]*(?:pre|post)rotate\n(?P<said>.*?)^[ \t]*endscript", re.DOTALL | re.MULTILINE
)


def extract_commands(path: str, text: str) -> str:
    """One script of all commands among the settings, each on the line on which it stands."""
    kept = [""] * (text.count("\n") + 1)
    for pattern in (_COMMAND_VALUE, _COMMAND_BLOCK, _CRON_LINE, _GIT_ALIAS, _LOGROTATE_SCRIPT):
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start("said"))
            for number, said in enumerate(found["said"].rstrip("\n").split("\n")):
                kept[line + number] = _unquote_command(said)
    return "\n".join(kept)


def _unquote_command(said: str) -> str:
    said = said.strip().rstrip(",")
    if re.fullmatch(r"[|>][-+\d]*|[\[{(]", said):
        return ""
    if said[:1] in "\"'" and said[-1:] == said[:1]:
        return said[1:-1].replace('\\"', '"')
    if said.startswith("[") and said.endswith("]"):
        return " ".join(re.findall(r"[\"']((?:\\.|[^\"'\\])*)[\"']", said)).replace('\\"', '"')
    return said


_SETTINGS_SUFFIXES = {".yaml", ".yml", ".json", ".jsonc", ".toml", ".cfg", ".ini", ".conf", ".config",
             ".service", ".timer", ".socket", ".path", ".mount", ".desktop", ".rules", ".plist",
             ".tmpl", ".tpl", ".j2", ".tf", ".hcl", ".properties", ".gitconfig", ".cnf", ".env",
             ".nomad", ".network", ".link", ".override", ".crontab", ".logrotate", ""}  # fmt: skip


def is_settings_file(path: str) -> bool:
    return PurePosixPath(path).suffix.casefold() in _SETTINGS_SUFFIXES


ReadEffects = Callable[[str], frozenset[str]]
"""What a shell text would do, as the policy's reader of commands names it."""
MAX_SCRIPT_CHARS = 256 << 10
_CODE_FENCE = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^\1\2", re.DOTALL | re.MULTILINE
)
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
"""A command that is warned of, or explained, is no step to take."""
_INSTRUCTION_BEFORE = re.compile(
    r"\b(?:run|execute|type|enter|issue|invoke|ejecuta|führe|exécute[rz]?|lance[rz]?|esegui|выполни|execute)"
    r"(?:\s+(?:the\s+)?(?:command|this|first|then|also|always|once))*[:,]?\s*$|(?:运行|执行|実行)\s*$|"
    r"(?-i:(?:^|[.:]\s|[-*]\s)[A-Z][a-z]+)\b[^.\n`]{0,40}\bwith\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""The words before a command that make it a step to take."""
CONCRETE_TARGET = re.compile(
    r"(?:https?|ftp)://(?![A-Z_<$])[\w-]+(?:\.[\w-]+)+|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|"
    r"/dev/(?:tcp|udp)/[\w-]+\.|AAAA[BCE][\w+/]{20}"
)
"""A real place or key: a sentence that only explains a command has none."""
_SHELL_FENCE_LANGUAGES = {
    "", "bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "ps1", "fish", "text",
    "dockerfile", "make", "makefile", "yaml", "yml", "ini", "cron", "bat",
}  # fmt: skip
_SCRIPT_SUFFIXES = {
    ".sh",
    ".bash",
    ".zsh",
    ".ksh",
    ".fish",
    ".ps1",
    ".psm1",
    ".mk",
    ".service",
    ".cron",
}
_BUILD_FILES = {
    "makefile",
    "dockerfile",
    "justfile",
    "containerfile",
    "rakefile",
    "crontab",
    "procfile",
}
_BLOCKING_EFFECTS = frozenset({"wipe", "fork-bomb", "self-change"})
_TIME_OR_HOST_CONDITION = re.compile(
    r"\bdate\s+\+\S*[^\n]*(?:-g[te]|-l[te]|>|<|==|=)\s*[\"']?\d{4,}|\bhostname\b[^\n]*(?:==?|=~)|"
    r"\$\(date[^)]*\)[\"']?\s*(?:-g[te]|>|==?)\s*[\"']?\d{4}|\bRANDOM\b\s*%|\bwhoami\b[^\n]*(?:==?|=~)",
)
_HARMFUL_COMMAND = re.compile(
    r"\brm\s+-\w*[rf]|\bcurl\b|\bwget\b|\bnc\b|\bdd\b|\beval\b|base64|\bmkfs|shred\b"
)
_INSECURE_DOWNLOAD = re.compile(
    r"(?:curl|wget|urlretrieve|urlopen|requests\.get)\b[^\n]*(?:http://(?!localhost|127\.)|https?://\d+\.\d+)"
)
_MADE_EXECUTABLE = re.compile(
    r"\bchmod\s+(?:\+x|[0-7]*7[0-7]*|u\+x|a\+x)\b|\b(?:ba)?sh\s+\S*(?:tmp|\$)|^\s*\./", re.M
)
_LONG_LINE = re.compile(r"[^\n]{2000}")
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
    """A piece of shell, and the line of its file on which it begins."""

    text: str
    line: int
    is_script: bool = True
    """False: a few words among others that are none."""
    only_mentioned: bool = False
    """Only named within a sentence: to be looked for, explained or warned of."""


def extract_shell_passages(path: str, text: str) -> Iterator[ShellPassage]:
    name = PurePosixPath(path)
    if (
        name.suffix in _SCRIPT_SUFFIXES
        or name.name.casefold() in _BUILD_FILES
        or _has_shell_shebang(text)
    ):
        yield ShellPassage(text, 1)
    elif name.suffix in (".md", ".markdown", ".mdx", ".rst", ".txt"):
        for found in _CODE_FENCE.finditer(text):
            if found[3].casefold() in _SHELL_FENCE_LANGUAGES:
                yield ShellPassage(found[4], text.count("\n", 0, found.start()) + 2)
        bare = _CODE_FENCE.sub(_blank_lines, text)
        for found in _INDENTED_COMMANDS.finditer(bare):
            yield ShellPassage(found[1], text.count("\n", 0, found.start(1)) + 1)
        for found in _INLINE_CODE.finditer(bare):
            if _WARNING_BEFORE.search(bare[max(0, found.start() - 40) : found.start()]):
                continue
            line = text.count("\n", 0, found.start()) + 1
            told = bool(
                _INSTRUCTION_BEFORE.search(bare[max(0, found.start() - 70) : found.start()])
            )
            yield ShellPassage(found[1], line, is_script=False, only_mentioned=not told)
    elif is_settings_file(path):
        yield ShellPassage(text, 1, is_script=False)
        commands = extract_commands(path, text)
        if commands.strip():
            yield ShellPassage(commands, 1)


def check_shell(
    path: str, passage: ShellPassage, read_effects: ReadEffects | None = None
) -> Iterator[ScanFinding]:
    text = split_long_lines(remove_case_patterns(passage.text[:MAX_SCRIPT_CHARS]))
    if (passage.is_script and len(passage.text) > MAX_SCRIPT_CHARS) or _UNREADABLE_LINE.search(
        passage.text
    ):
        yield _shell_finding(
            path, passage.line, "a line, or a script, too long to be read by anybody"
        )
    seen: set[str] = set()
    shown = join_continued_lines(text)
    for number, line in shown:
        for cause in _find_line_causes(line):
            if cause not in seen:
                seen.add(cause)
                acts = not passage.only_mentioned or bool(CONCRETE_TARGET.search(line))
                yield _shell_finding(path, passage.line + number, cause, blocks=acts)
    yield from _check_unfolded(path, passage, text, seen)
    yield from _check_whole_passage(path, passage, text)
    if read_effects is not None and passage.is_script:
        yield from _check_effects(path, passage, text, read_effects)


def split_long_lines(text: str) -> str:
    """Endless lines cut: patterns over them would take for ever."""
    return _LONG_LINE.sub("\\g<0>\n", text)


def join_continued_lines(text: str) -> list[tuple[int, str]]:
    """Lines joined where they go on; each with the number it begins on."""
    found: list[tuple[int, str]] = []
    begun = 0
    held = ""
    for number, line in enumerate(text.split("\n")):
        if not held:
            begun = number
        held += line
        if held.endswith("\\"):
            held = held[:-1] + " "
        elif held.rstrip().endswith(("|", "&&")) and len(held) < 4000:
            held += " "
        else:
            found.append((begun, held[:4000]))
            held = ""
    return [*found, (begun, held[:4000])] if held else found


def _find_line_causes(line: str) -> Iterator[str]:
    if line.lstrip().startswith("#") and not line.lstrip().startswith("#!"):
        return
    known = _matches("trusted_installers", line)
    for sign in load_patterns("shell", "lines"):
        if sign.pattern.search(line) and not (known and "download" in sign.cause):
            yield sign.cause
    if _matches("same_line", line) or _matches("env_out", line):
        yield "secrets leave the machine"
    for found in load_patterns("shell", "download_run")[0].pattern.finditer(line):
        words = next((group for group in found.groupdict().values() if group), "")
        if not _matches("trusted_installers", words):
            yield "what was fetched from an unknown address is run unseen"


def _check_unfolded(
    path: str, passage: ShellPassage, text: str, seen: set[str]
) -> Iterator[ScanFinding]:
    """The same again with quotes, variables and escapes taken away: new causes were hidden."""
    plain = unfold_shell(text)
    if plain == text:
        return
    for number, line in join_continued_lines(plain):
        for cause in _find_line_causes(line):
            if cause not in seen:
                seen.add(cause)
                told = f"{cause}; it is hidden by tricks with strings"
                yield _shell_finding(path, passage.line + number, told)


def _check_whole_passage(path: str, passage: ShellPassage, text: str) -> Iterator[ScanFinding]:
    """What only the whole shows: a secret here, a way out there; a date, and harm."""
    code = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    plain = unfold_shell(code)
    carries = _matches("secret_anywhere", plain) and _matches("out_anywhere", plain)
    if passage.is_script and carries and not _is_only_login(plain):
        yield _shell_finding(path, passage.line, "it reads secrets and has a way to send them off")
    if passage.is_script and _TIME_OR_HOST_CONDITION.search(code) and _HARMFUL_COMMAND.search(code):
        yield _shell_finding(
            path, passage.line, "it waits for a date or a machine, and then does harm"
        )
    if passage.is_script and _INSECURE_DOWNLOAD.search(code) and _MADE_EXECUTABLE.search(code):
        yield _shell_finding(
            path, passage.line, "what was fetched from an unprotected address is run"
        )
    if (
        passage.is_script
        and _ALL_VARIABLES.search(code)
        and _matches("out_anywhere", _join_continuations(code))
    ):
        yield _shell_finding(
            path, passage.line, "it takes all variables and has a way to send them off"
        )
    made = {found[1] for found in _DECODED_VARIABLE.finditer(code)}
    if made & {found[1] for found in _VARIABLE_EXECUTION.finditer(code)}:
        yield _shell_finding(path, passage.line, "text that is made up on the way is run")


def _is_only_login(text: str) -> bool:
    """ssh and scp with a key of one's own are what keys are for."""
    rest = re.sub(r"(?:ssh|scp|rsync|sftp|ssh-copy-id|ssh-add|ssh-keygen|git)\b[^\n]*", "", text)
    return not (_matches("secret_anywhere", rest) and _matches("out_anywhere", text))


def _check_effects(
    path: str, passage: ShellPassage, text: str, effects: ReadEffects
) -> Iterator[ScanFinding]:
    found = effects(text)
    for effect in sorted(found & _BLOCKING_EFFECTS):
        yield _shell_finding(path, passage.line, f"the command reader says: {effect}")
    if {"secret-read", "network-out"} <= found and not _is_only_login(text):
        joined = _matches("secret_anywhere", text)
        cause = "it reads secrets and sends something out"
        yield _shell_finding(path, passage.line, cause, blocks=joined)


def _join_continuations(text: str) -> str:
    return text.replace("\\\n", " ")


def _matches(table: str, text: str) -> bool:
    return bool(load_patterns("shell", table)[0].pattern.search(text))


def _shell_finding(path: str, line: int, cause: str, *, blocks: bool = True) -> ScanFinding:
    return ScanFinding(kind="shell", file=path, line=line, cause=cause, blocks=blocks)


def _has_shell_shebang(text: str) -> bool:
    return bool(re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", text))


def _blank_lines(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
