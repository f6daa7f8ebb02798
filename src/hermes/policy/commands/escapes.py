"""Escapes inside words: `$'…'` and the format of echo -e and printf, as bash reads them."""

import re

_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_HEX = r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|"
_ESCAPE = re.compile(_HEX + r"([0-7]{1,3})|c(.)|(.))", re.S)
_ECHO_ESCAPE = re.compile(_HEX + r"(0[0-7]{0,3}|[1-7][0-7]{0,2})|c(.)|(.))", re.S)


def _byte(number: int) -> str:
    return bytes([number & 0xFF]).decode("latin-1")


def _letter(number: int) -> str:
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "?"


def _unescape(found: re.Match[str]) -> str:
    hexadecimal, short, long, octal, control, simple = found.groups()
    if hexadecimal:
        return _byte(int(hexadecimal, 16))
    if short or long:
        return _letter(int(short or long, 16))
    if octal:
        return _byte(int(octal, 8))
    if control:
        return _byte(ord(control.upper()) ^ 64) if control.isascii() else control
    return _SIMPLE.get(simple, "\\" + simple)


def ansi(body: str) -> str:
    r"""The text of `$'…'`; a NUL ends it, as in bash."""
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_unescape, body).partition("\0")[0]


def echoed(text: str) -> str:
    r"""What `echo -e` and `printf %b` make of it; `\c` ends the output."""
    return _ECHO_ESCAPE.sub(_unescape, text.split("\\c", 1)[0])


def formatted(format_: str, words: list[str]) -> str | None:
    """What printf writes, for formats made of text, %s, %b, %c, %d and %x; else None."""
    text, rest = _ESCAPE.sub(_unescape, format_), list(words)
    if text.count("%") != format_.count("%"):
        return None
    written = []
    for _ in range(64):
        count = len(rest)
        piece = _fill(text, rest)
        if piece is None:
            return None
        written.append(piece)
        if not rest or len(rest) == count:
            return "".join(written)
    return None


_FIELD = re.compile(r"%(%|[sbcdqioux]|-?\d*s)")


def _fill(text: str, rest: list[str]) -> str | None:
    failed = False

    def put(found: re.Match[str]) -> str:
        nonlocal failed
        kind = found.group(1)
        if kind == "%":
            return "%"
        word = rest.pop(0) if rest else ""
        if kind == "s":
            return word
        if kind == "b":
            return echoed(word)
        if kind == "c":
            return word[:1]
        if kind in "di" and re.fullmatch(r"-?[1-9]\d*|0|", word):
            return word or "0"
        failed = True
        return ""

    filled = _FIELD.sub(put, text)
    leftover = _FIELD.sub("", text)
    return None if failed or "%" in leftover else filled
