"""awk: a program in which pipes, `system` and redirections reach outside."""

import re

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import printed
from hermes.policy.commands.marks import foreign, literal, settled, shown
from hermes.policy.commands.options import split
from hermes.policy.commands.tables import Program

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<regex>(?<=[\s(,~!{;&|=?:<>+*%-])/(?:[^/\\\n]|\\.)+/|^/(?:[^/\\\n]|\\.)+/)
    |(?P<comment>\#[^\n]*)|(?P<word>@?[A-Za-z_]\w*)|(?P<other>\|\||\|&|&&|>>|>=|<=|==|!=|.)""",
    re.X | re.S,
)


_HIDING = re.compile(r"\bsystem\s*\(|\bgetline\b|@[A-Za-z_]|;\s*printf?\b")


def awk(call: Call, entry: Program) -> str:
    found = split(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    call.mark("read", "awk reads")
    if found.has(
        "-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load", "-D", "--debug"
    ):
        call.dynamic("awk runs a program from a file")
    words = found.words
    if not found.has("-f", "--file", "-E", "--exec"):
        programs, words = [*found.values("-e", "--source"), *words[:1]], words[1:]
        if found.has("-e", "--source"):
            programs, words = found.values("-e", "--source"), found.words
        for program in programs:
            _judge(call, program)
    if found.has("-p", "-o", "--profile", "--pretty-print", "-d", "--dump-variables"):
        call.mark("write", "awk writes a file of its own")
    if found.loose or call.doubtful:
        call.dynamic("a word only known at run time may be the program")
    for word in words:
        if not re.match(r"[A-Za-z_]\w*=", word):
            call.reads(word)
    plain = not any(mark in program for program in found.words[:1] for mark in ('"', "-"))
    return printed(call, "same" if plain else "", words)


def _judge(call: Call, program: str) -> None:
    if not settled(program) and foreign(program):
        call.dynamic("part of the awk program is only known at run time")
    state = _State()
    for token in _TOKEN.finditer(literal(program)):
        state.take(call, token.lastgroup or "other", token.group())
    if "/inet" in program:
        call.mark("network-out", "awk opens a network connection")


class _State:
    """Where in the program we are: within a print statement, `>` writes a file."""

    def __init__(self) -> None:
        self.printing = False
        self.depth = 0
        self.reading = False
        self.target = False

    def take(self, call: Call, kind: str, text: str) -> None:
        if kind == "comment":
            return
        if kind in ("regex", "string") and _HIDING.search(text if kind == "string" else f"{text} "):
            call.dynamic("awk text in which code may hide")
        if kind == "regex" and (";" in text or '"' in text):
            call.dynamic("a slash in awk that may be a division")
        if self.target and text.strip():
            self._write(call, kind, text)
        if kind == "word":
            self._word(call, text)
        elif kind == "other":
            self._mark(call, text)
        elif kind == "string" and self.reading and text.strip():
            call.reads(text.strip('"'))
            self.reading = False

    def _write(self, call: Call, kind: str, text: str) -> None:
        self.target = False
        if kind == "string" and text.strip('"') in ("/dev/stderr", "/dev/stdout", "/dev/null"):
            return
        if kind == "string":
            call.writes(text.strip('"'), f"awk writes {shown(text)}")
        else:
            call.mark("write", "awk writes a file")

    def _word(self, call: Call, text: str) -> None:
        if text in ("system", "@load", "@include") or text.startswith("@"):
            call.dynamic(f"awk {text} runs code")
        if text in ("print", "printf"):
            self.printing, self.depth = True, 0

    def _mark(self, call: Call, text: str) -> None:
        if text in ("|", "|&"):
            call.dynamic("awk pipes to or from a command")
        elif text in (";", "\n", "}"):
            self.printing = False
        elif text == "(":
            self.depth += 1
        elif text == ")":
            self.depth -= 1
        elif text in (">", ">>") and self.printing and self.depth <= 0:
            self.target = True
        elif text == "<":
            self.reading = True
