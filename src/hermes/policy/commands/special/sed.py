"""sed: scripts are parsed, because a single letter of them runs commands or writes files."""

import re

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import printed
from hermes.policy.commands.marks import NAME, foreign, literal, settled
from hermes.policy.commands.options import split
from hermes.policy.commands.tables import Program

_ADDRESS = re.compile(
    r"\s*(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(?P<mark>.)(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[IM]*"
    r"|[+~]\d+)\s*"
)
_PLAIN = "dDgGhHxnNpPlqQzF="


def sed(call: Call, entry: Program) -> str:
    found = split(_in_place(call.argv[1:]), entry.grammar)
    call.flags = tuple(found.names())
    call.mark("read", "sed reads")
    scripts = found.values("-e", "--expression")
    words = found.words
    if found.has("-f", "--file"):
        call.dynamic("sed runs a script from a file")
    elif not scripts:
        scripts, words = words[:1], words[1:]
    if found.loose or call.doubtful:
        call.dynamic("a word only known at run time may be the script")
    for script in scripts:
        _judge(call, script)
    for word in words:
        if found.has("-i", "--in-place"):
            call.writes(word)
        call.reads(word)
    if found.has("-i", "--in-place") and not words:
        call.mark("write", "sed -i")
    plain = not any("-" in script or "e" in script.rpartition("/")[2] for script in scripts)
    return printed(call, "same" if plain else "", words)


def _in_place(words: list[str]) -> list[str]:
    """`-i.bak` and `-ni` are -i with something attached."""
    return ["--in-place" if re.match(r"-[nErsuz]*i", word) else word for word in words]


def _judge(call: Call, script: str) -> None:
    if not settled(script) and foreign(script):
        call.dynamic("part of the sed script is only known at run time")
    rest: str | None = literal(script).replace(NAME, "1")
    while rest:
        rest = _command(call, rest.lstrip(" \t\n;{}"))


def _command(call: Call, text: str) -> str | None:
    """Judge one command; gives what follows it, or None when the script cannot be read."""
    text = _after_addresses(text).lstrip(" \t!")
    if not text:
        return None
    letter, rest = text[0], text[1:]
    if letter in "sy":
        return _substitution(call, letter, rest)
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
    if letter in _PLAIN or letter in "{}":
        return re.sub(r"^\s*\d*", "", rest)
    call.dynamic(f"sed command {letter!r} is not known")
    return None


def _after_addresses(text: str) -> str:
    while found := _ADDRESS.match(text):
        text = text[found.end() :]
        if not text.startswith(","):
            break
        text = text[1:]
    return text


def _substitution(call: Call, letter: str, rest: str) -> str | None:
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
    said = flags.group() if flags and letter == "s" else ""
    if "e" in said:
        call.dynamic("sed s///e runs the result")
    tail = tail[len(said) :]
    if tail.startswith("w") and letter == "s":
        call.writes(tail[1:].partition("\n")[0].strip())
        return tail.partition("\n")[2]
    if tail.strip(" \t") and tail.lstrip(" \t")[0] not in ";\n}#":
        call.dynamic("a sed substitution that cannot be read")
    return tail
