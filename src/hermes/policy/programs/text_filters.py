"""sed and awk: parses their scripts, which can run commands and write files. tr: what it leaves."""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
    starts_with_glob,
)
from hermes.policy.commands.tables import ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table, printed_kind

_SED_ADDRESS = re.compile(
    r"\s*(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(?P<mark>.)(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[IM]*"
    r"|[+~]\d+)\s*"
)
_HARMLESS_SED_COMMANDS = "dDgGhHxnNpPlqQzF="


_DIGITS_ONLY = [[options, digits] for options in ("-cd", "-dc") for digits in ("0-9", "[:digit:]")]


def tr(call: ProgramCall, entry: ProgramEntry) -> str:
    """`tr -cd 0-9` leaves a number, whatever it reads."""
    apply_table(call, entry)
    return SYSTEM_NAME if call.argv[1:] in _DIGITS_ONLY else ANY_WORD


def sed(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(_in_place(call.argv[1:]), entry.grammar)
    call.flags = tuple(found.names())
    call.mark("read", "sed reads")
    scripts = found.values("-e", "--expression")
    words = found.words
    if found.has("-f", "--file"):
        call.dynamic("sed runs a script from a file")
    elif not scripts:
        scripts, words = words[:1], words[1:]
    names_may_be_options = "--" not in call.argv and any(map(starts_with_glob, words))
    if found.loose or call.doubtful or names_may_be_options:
        call.dynamic("a word only known at run time may be the script")
    for script in scripts:
        _judge_sed_script(call, script)
    for word in words:
        if found.has("-i", "--in-place"):
            call.writes(word)
        call.reads(word)
    if found.has("-i", "--in-place") and not words:
        call.mark("write", "sed -i")
    plain = not any("-" in script or "e" in script.rpartition("/")[2] for script in scripts)
    return printed_kind(call, "same" if plain else "", words)


def _in_place(words: list[str]) -> list[str]:
    """`-i.bak` and `-ni` contain -i."""
    return ["--in-place" if re.match(r"-[nErsuz]*i", word) else word for word in words]


def _judge_sed_script(call: ProgramCall, script: str) -> None:
    if not is_fully_known(script) and has_untrusted_text(script):
        call.dynamic("part of the sed script is only known at run time")
    rest: str | None = literal_text(script).replace(SYSTEM_NAME, "1")
    while rest:
        rest = _judge_sed_command(call, rest.lstrip(" \t\n;{}"))


def _judge_sed_command(call: ProgramCall, text: str) -> str | None:
    """Marks the effects of one command; returns the rest, or None when it cannot be parsed."""
    text = _after_addresses(text).lstrip(" \t!")
    if not text:
        return None
    letter, rest = text[0], text[1:]
    if letter in "sy":
        return _judge_substitution(call, letter, rest)
    if letter == "e":
        call.dynamic("sed e runs a command")
        call.shell(rest.partition("\n")[0])
        return rest.partition("\n")[2]
    if letter in "wW":
        call.writes(rest.partition("\n")[0].strip())
        return rest.partition("\n")[2]
    if letter in "rR":
        call.reads(rest.partition("\n")[0].strip())
        return rest.partition("\n")[2]
    if letter in "aic#:btTv":
        return (
            rest.partition("\n")[2]
            if letter in "aic#"
            else re.split(r"[;\n}]", rest, maxsplit=1)[-1]
            if re.search(r"[;\n}]", rest)
            else None
        )
    if letter in _HARMLESS_SED_COMMANDS or letter in "{}":
        return re.sub(r"^\s*\d*", "", rest)
    call.dynamic(f"sed command {letter!r} is not known")
    return None


def _after_addresses(text: str) -> str:
    while found := _SED_ADDRESS.match(text):
        text = text[found.end() :]
        if not text.startswith(","):
            break
        text = text[1:]
    return text


def _judge_substitution(call: ProgramCall, letter: str, rest: str) -> str | None:
    mark = rest[:1]
    if not mark or mark in "\\\n":
        call.dynamic("a sed substitution that cannot be read")
        return None
    one = rf"(?:(?!{re.escape(mark)})[^\\]|\\.)*"
    found = re.match(rf"{re.escape(mark)}{one}{re.escape(mark)}{one}{re.escape(mark)}", rest, re.S)
    if not found:
        call.dynamic("a sed substitution that cannot be read")
        return None
    tail = rest[found.end() :]
    flags = re.match(r"[gpiImM0-9e]*", tail)
    letters = flags.group() if flags and letter == "s" else ""
    if "e" in letters:
        call.dynamic("sed s///e runs the result")
    tail = tail[len(letters) :]
    if tail.startswith("w") and letter == "s":
        call.writes(tail[1:].partition("\n")[0].strip())
        return tail.partition("\n")[2]
    if tail.strip(" \t") and tail.lstrip(" \t")[0] not in ";\n}#":
        call.dynamic("a sed substitution that cannot be read")
    return tail


_AWK_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<regex>(?<=[\s(,~!{;&|=?:<>+*%-])/(?:[^/\\\n]|\\.)+/|^/(?:[^/\\\n]|\\.)+/)
    |(?P<comment>\#[^\n]*)|(?P<word>@?[A-Za-z_]\w*)|(?P<other>\|\||\|&|&&|>>|>=|<=|==|!=|.)""",
    re.X | re.S,
)


_SIDE_EFFECT = re.compile(r"\bsystem\s*\(|\bgetline\b|@[A-Za-z_]|;\s*printf?\b")


def awk(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    call.mark("read", "awk reads")
    if found.has(
        "-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load", "-D", "--debug", "-W"
    ):
        call.dynamic("awk runs a program from a file")
    words = found.words
    if not found.has("-f", "--file", "-E", "--exec"):
        programs, words = [*found.values("-e", "--source"), *words[:1]], words[1:]
        if found.has("-e", "--source"):
            programs, words = found.values("-e", "--source"), found.words
        for program in programs:
            _judge_awk_program(call, program)
    if found.has("-p", "-o", "--profile", "--pretty-print", "-d", "--dump-variables"):
        call.mark("write", "awk writes a file of its own")
    if found.loose or call.doubtful:
        call.dynamic("a word only known at run time may be the program")
    for word in words:
        if not re.match(r"[A-Za-z_]\w*=", word):
            call.reads(word)
    plain = not any(mark in program for program in found.words[:1] for mark in ('"', "-"))
    return printed_kind(call, "same" if plain else "", words)


def _judge_awk_program(call: ProgramCall, program: str) -> None:
    if not is_fully_known(program) and has_untrusted_text(program):
        call.dynamic("part of the awk program is only known at run time")
    state = _AwkState()
    for token in _AWK_TOKEN.finditer(literal_text(program)):
        state.take(call, token.lastgroup or "other", token.group())
    if "/inet" in program:
        call.mark("network-out", "awk opens a network connection")


class _AwkState:
    """The parser state: in a print statement, `>` writes a file."""

    def __init__(self) -> None:
        self.printing = False
        self.depth = 0
        self.reading = False
        self.input = False
        """After `getline`, `<` names the file to read."""
        self.target = False

    def take(self, call: ProgramCall, kind: str, text: str) -> None:
        if kind == "comment":
            return
        if kind in ("regex", "string") and _SIDE_EFFECT.search(
            text if kind == "string" else f"{text} "
        ):
            call.dynamic("awk text in which code may hide")
        if kind == "regex" and (";" in text or '"' in text):
            call.dynamic("a slash in awk that may be a division")
        if self.target and text.strip():
            self._write(call, kind, text)
        if self.reading and self.input and kind != "string" and text.strip():
            self.reading = self.input = False
            call.reads(ANY_WORD)  # the name of the file is computed
        if kind == "word":
            self._word(call, text)
        elif kind == "other":
            self._mark(call, text)
        elif kind == "string" and self.reading and text.strip():
            call.reads(text.strip('"'))
            self.reading = self.input = False

    def _write(self, call: ProgramCall, kind: str, text: str) -> None:
        self.target = False
        if kind == "string" and text.strip('"') in ("/dev/stderr", "/dev/stdout", "/dev/null"):
            return
        if kind == "string":
            call.writes(text.strip('"'), f"awk writes {display_text(text)}")
        else:
            call.mark("write", "awk writes a file")

    def _word(self, call: ProgramCall, text: str) -> None:
        if text in ("system", "@load", "@include") or text.startswith("@"):
            call.dynamic(f"awk {text} runs code")
        if text in ("ARGV", "ARGC"):
            call.reads(ANY_WORD)  # it may add files to those in the arguments
        if text in ("print", "printf"):
            self.printing, self.depth = True, 0
        self.input = self.input or text == "getline"

    def _mark(self, call: ProgramCall, text: str) -> None:
        if text in ("|", "|&"):
            call.dynamic("awk pipes to or from a command")
        elif text in (";", "\n", "}"):
            self.printing = self.input = False
        elif text == "(":
            self.depth += 1
        elif text == ")":
            self.depth -= 1
        elif text in (">", ">>") and self.printing and self.depth <= 0:
            self.target = True
        elif text == "<":
            self.reading = True
