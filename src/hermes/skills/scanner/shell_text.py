"""Shell in a foreign skill: its scripts, its fenced examples, its playbook, its build files."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.run_by_others import commands_in, is_settings
from hermes.skills.scanner.shell_unfolded import unfolded, unlabelled
from hermes.skills.scanner.signs import signs

Effects = Callable[[str], frozenset[str]]
"""What a shell text would do, as the policy's reader of commands names it."""
LARGEST = 256 << 10
_FENCE = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^\1\2", re.DOTALL | re.MULTILINE
)
_INDENTED = re.compile(
    r"(?:\A|\n[ \t]*)\n((?:(?: {4}|\t)[ \t]*(?:[$>] )?(?:sudo\s+|[A-Z_]+=\S+\s+)*"
    r"(?:curl|wget|bash|sh|python3?|pip3?|npm|npx|node|git|export|echo|printf|cat|rm|chmod|ssh|scp|nc|dd|crontab|systemctl|eval|"
    r"source|\./)\S*[ \t][^\n]+(?:\n(?: {4}|\t)[^\n]+)*(?:\n|\Z)))"
)
"""A block of commands without a fence."""
_INLINE = re.compile(r"(?<!`)`([^`\n]{6,300})`(?!`)")
_SPOKEN_OF = re.compile(
    r"\b(?:no|never|avoid|not|don't|instead of|rather than|is|are|means|becomes|like|such as|"
    r"e\.g\.|bomb|danger\w*|bad|wrong|catch\w*|detect\w*|flag\w*|refuse\w*|block\w*|forbid\w*)"
    r"[:,]?\s+(?:a\s+|an\s+|the\s+|bare\s+|ever\s+|use\s+|run\s+)?$|"
    r"\b(?:never|avoid|don't|do not|instead of|rather than)\b"
    r"(?!\s+(?:forget|hesitate|fail|wait|stop|ask|skip|mind|worry))[^.;:`\n]{0,30}$",
    re.IGNORECASE,
)
"""A command that is warned of, or explained, is no step to take."""
_TOLD = re.compile(
    r"\b(?:run|execute|type|enter|issue|invoke|ejecuta|führe|exécute[rz]?|lance[rz]?|esegui|выполни|execute)"
    r"(?:\s+(?:the\s+)?(?:command|this|first|then|also|always|once))*[:,]?\s*$|(?:运行|执行|実行)\s*$|"
    r"(?-i:(?:^|[.:]\s|[-*]\s)[A-Z][a-z]+)\b[^.\n`]{0,40}\bwith\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""The words before a command that make it a step to take."""
CONCRETE = re.compile(
    r"(?:https?|ftp)://(?![A-Z_<$])[\w-]+(?:\.[\w-]+)+|(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|"
    r"/dev/(?:tcp|udp)/[\w-]+\.|AAAA[BCE][\w+/]{20}"
)
"""A real place or key: a sentence that only explains a command has none."""
_SHELL_WORDS = {
    "", "bash", "sh", "shell", "zsh", "console", "terminal", "powershell", "ps1", "fish", "text",
    "dockerfile", "make", "makefile", "yaml", "yml", "ini", "cron", "bat",
}  # fmt: skip
_SCRIPTS = {".sh", ".bash", ".zsh", ".ksh", ".fish", ".ps1", ".psm1", ".mk", ".service", ".cron"}
_BUILD = {"makefile", "dockerfile", "justfile", "containerfile", "rakefile", "crontab", "procfile"}
_TURNS_ON = frozenset({"wipe", "fork-bomb", "self-change"})
_BOMB = re.compile(
    r"\bdate\s+\+\S*[^\n]*(?:-g[te]|-l[te]|>|<|==|=)\s*[\"']?\d{4,}|\bhostname\b[^\n]*(?:==?|=~)|"
    r"\$\(date[^)]*\)[\"']?\s*(?:-g[te]|>|==?)\s*[\"']?\d{4}|\bRANDOM\b\s*%|\bwhoami\b[^\n]*(?:==?|=~)",
)
_HARM = re.compile(
    r"\brm\s+-\w*[rf]|\bcurl\b|\bwget\b|\bnc\b|\bdd\b|\beval\b|base64|\bmkfs|shred\b"
)
_UNPROTECTED = re.compile(
    r"(?:curl|wget|urlretrieve|urlopen|requests\.get)\b[^\n]*(?:http://(?!localhost|127\.)|https?://\d+\.\d+)"
)
_MADE_TO_RUN = re.compile(
    r"\bchmod\s+(?:\+x|[0-7]*7[0-7]*|u\+x|a\+x)\b|\b(?:ba)?sh\s+\S*(?:tmp|\$)|^\s*\./", re.M
)
_LONG = re.compile(r"[^\n]{2000}")
_ENDLESS = re.compile(r"[^\n]{16000}")
_ENVIRONMENT = re.compile(
    r"\bprintenv\b(?!\s+[A-Z])|(?:^|[;(&]\s*|\|\|\s*|\$\(\s*)env\s*\||\bexport\s+-p\b|\bdeclare\s+-x\b|"
    r"(?:^|[;(|&]\s*)set\s*\|",
    re.MULTILINE,
)
_DECODES = re.compile(
    r"\b(\w+)=[\"']?\$\([^)]*(?:printf|base64|xxd|\brev\b|\btr\b|curl|wget)[^)]*\)"
)
_RUNS = re.compile(r"\b(?:eval|exec|source|(?:ba|z|da)?sh\s+-c)\s+[\"']?\$\{?(\w+)")


class Passage(Value, frozen=True):
    """A piece of shell, and the line of its file on which it begins."""

    text: str
    line: int
    whole: bool = True
    """False: a few words among others that are none."""
    spoken: bool = False
    """Only named within a sentence: to be looked for, explained or warned of."""


def passages(path: str, text: str) -> Iterator[Passage]:
    name = PurePosixPath(path)
    if name.suffix in _SCRIPTS or name.name.casefold() in _BUILD or _shebang(text):
        yield Passage(text, 1)
    elif name.suffix in (".md", ".markdown", ".mdx", ".rst", ".txt"):
        for found in _FENCE.finditer(text):
            if found[3].casefold() in _SHELL_WORDS:
                yield Passage(found[4], text.count("\n", 0, found.start()) + 2)
        bare = _FENCE.sub(_blank, text)
        for found in _INDENTED.finditer(bare):
            yield Passage(found[1], text.count("\n", 0, found.start(1)) + 1)
        for found in _INLINE.finditer(bare):
            if _SPOKEN_OF.search(bare[max(0, found.start() - 40) : found.start()]):
                continue
            line = text.count("\n", 0, found.start()) + 1
            told = bool(_TOLD.search(bare[max(0, found.start() - 70) : found.start()]))
            yield Passage(found[1], line, whole=False, spoken=not told)
    elif is_settings(path):
        yield Passage(text, 1, whole=False)
        commands = commands_in(path, text)
        if commands.strip():
            yield Passage(commands, 1)


def look_at_shell(path: str, passage: Passage, effects: Effects | None = None) -> Iterator[Finding]:
    text = bounded(unlabelled(passage.text[:LARGEST]))
    if (passage.whole and len(passage.text) > LARGEST) or _ENDLESS.search(passage.text):
        yield _found(path, passage.line, "a line, or a script, too long to be read by anybody")
    seen: set[str] = set()
    shown = logical_lines(text)
    for number, line in shown:
        for cause in _causes(line):
            if cause not in seen:
                seen.add(cause)
                acts = not passage.spoken or bool(CONCRETE.search(line))
                yield _found(path, passage.line + number, cause, blocks=acts)
    yield from _hidden(path, passage, text, seen)
    yield from _together(path, passage, text)
    if effects is not None and passage.whole:
        yield from _by_tree(path, passage, text, effects)


def bounded(text: str) -> str:
    """Endless lines cut: patterns over them would take for ever."""
    return _LONG.sub("\\g<0>\n", text)


def logical_lines(text: str) -> list[tuple[int, str]]:
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


def _causes(line: str) -> Iterator[str]:
    if line.lstrip().startswith("#") and not line.lstrip().startswith("#!"):
        return
    known = _match("trusted_installers", line)
    for sign in signs("shell", "lines"):
        if sign.pattern.search(line) and not (known and "download" in sign.cause):
            yield sign.cause
    if _match("same_line", line) or _match("env_out", line):
        yield "secrets leave the machine"
    for found in signs("shell", "download_run")[0].pattern.finditer(line):
        words = next((group for group in found.groupdict().values() if group), "")
        if not _match("trusted_installers", words):
            yield "what was fetched from an unknown address is run unseen"


def _hidden(path: str, passage: Passage, text: str, seen: set[str]) -> Iterator[Finding]:
    """The same again with quotes, variables and escapes taken away: new causes were hidden."""
    plain = unfolded(text)
    if plain == text:
        return
    for number, line in logical_lines(plain):
        for cause in _causes(line):
            if cause not in seen:
                seen.add(cause)
                told = f"{cause}; it is hidden by tricks with strings"
                yield _found(path, passage.line + number, told)


def _together(path: str, passage: Passage, text: str) -> Iterator[Finding]:
    """What only the whole shows: a secret here, a way out there; a date, and harm."""
    code = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    plain = unfolded(code)
    carries = _match("secret_anywhere", plain) and _match("out_anywhere", plain)
    if passage.whole and carries and not _only_logs_in(plain):
        yield _found(path, passage.line, "it reads secrets and has a way to send them off")
    if passage.whole and _BOMB.search(code) and _HARM.search(code):
        yield _found(path, passage.line, "it waits for a date or a machine, and then does harm")
    if passage.whole and _UNPROTECTED.search(code) and _MADE_TO_RUN.search(code):
        yield _found(path, passage.line, "what was fetched from an unprotected address is run")
    if passage.whole and _ENVIRONMENT.search(code) and _match("out_anywhere", _flat(code)):
        yield _found(path, passage.line, "it takes all variables and has a way to send them off")
    made = {found[1] for found in _DECODES.finditer(code)}
    if made & {found[1] for found in _RUNS.finditer(code)}:
        yield _found(path, passage.line, "text that is made up on the way is run")


def _only_logs_in(text: str) -> bool:
    """ssh and scp with a key of one's own are what keys are for."""
    rest = re.sub(r"(?:ssh|scp|rsync|sftp|ssh-copy-id|ssh-add|ssh-keygen|git)\b[^\n]*", "", text)
    return not (_match("secret_anywhere", rest) and _match("out_anywhere", text))


def _by_tree(path: str, passage: Passage, text: str, effects: Effects) -> Iterator[Finding]:
    found = effects(text)
    for effect in sorted(found & _TURNS_ON):
        yield _found(path, passage.line, f"the command reader says: {effect}")
    if {"secret-read", "network-out"} <= found and not _only_logs_in(text):
        joined = _match("secret_anywhere", text)
        cause = "it reads secrets and sends something out"
        yield _found(path, passage.line, cause, blocks=joined)


def _flat(text: str) -> str:
    return text.replace("\\\n", " ")


def _match(table: str, text: str) -> bool:
    return bool(signs("shell", table)[0].pattern.search(text))


def _found(path: str, line: int, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="shell", file=path, line=line, cause=cause, blocks=blocks)


def _shebang(text: str) -> bool:
    return bool(re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", text))


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
