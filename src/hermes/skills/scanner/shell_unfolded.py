"""A shell text with its string tricks taken away, so that `c""url` and `$a$b` read as they run."""

import re

MOST_PASSES = 3
_ASSIGNED = re.compile(
    r"(?:^|[;&\s])(?:local\s+|export\s+)?(\w+)=(\"[^\"\n$`]*\"|'[^'\n]*'|[^\s;&|$`\"'()]+)"
)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_PRINTED = re.compile(
    r"\$\(\s*(?:printf|echo\s+-\w*e\w*)\s+[\"']([^\"'$]*\\[x0-7u][^\"'$]*)[\"']\s*\)"
)
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\\u([0-9a-fA-F]{4})")
_EMPTY = re.compile(r"(?<=[\w/.:-])(?:\"\"|'')(?=[\w/.:-])")
_GLUED = re.compile(
    r"(?<=[\w/.:-])\"([\w/.:-]{1,12})\"|(?<=[\w/.:-])'([\w/.:-]{1,12})'|\"([\w/.:-]{1,12})\"(?=[\w/.:-])|'([\w/.:-]{1,12})'(?=[\w/.:-])"
)
_SLASHED = re.compile(r"(?<=\w)\\(?=[a-z])|(?<![\w\\])\\(?=[a-z]\w)")
_SPACED = re.compile(r"\$\{?IFS\}?(?:\$\d)?|\{(\w+),([^{}\s]+)\}")
_SLICE = re.compile(r"\$\{(\w+):(\d+):(\d+)\}")
_NOTHING = re.compile(r"\$@|\$\*(?=\w)|\$\{@\}|\$\(\)|``")
_ELSEWHERE = re.compile(r"\b(git|make)\s+(?:-C\s+\S+\s+)+")
"""`git -C there push` is `git push`."""
_LABEL = re.compile(
    r"((?:\bin|;;&?|;&)(?:[ \t]*(?:#[^\n]*)?\n)*\s*)\(?(?:[^()\n;#\"'`]|\"[^\"\n]*\"|'[^'\n]*')+\)"
)


def unlabelled(text: str) -> str:
    """Without the patterns of `case`: `a|env|b)` runs nothing."""
    return _LABEL.sub(r"\1", text) if re.search(r"\bcase\b", text) else text


def unfolded(text: str) -> str:
    """Never longer by much, and never run: only literal values are put in."""
    text = _ELSEWHERE.sub(r"\1 ", unlabelled(text))
    for _ in range(MOST_PASSES):
        fresh = _once(text)
        if fresh == text or len(fresh) > 4 * len(text) + 4096:
            break
        text = fresh
    return text


def _once(text: str) -> str:
    text = _ANSI.sub(lambda found: _letters(found[1]), text)
    text = _PRINTED.sub(lambda found: _letters(found[1]), text)
    values = {found[1]: found[2].strip("\"'") for found in _ASSIGNED.finditer(text)}
    text = _SLICE.sub(lambda found: _slice(found, values), text)
    for name, value in values.items():
        if len(value) <= 200:
            put = value.replace("\\", "\\\\")
            text = re.sub(rf"\$\{{{name}\}}|\${name}\b|\${name}(?=\$)", put, text)
    text = _EMPTY.sub("", text)
    text = _GLUED.sub(lambda found: next(each for each in found.groups() if each), text)
    text = _SLASHED.sub("", text)
    text = _NOTHING.sub("", text)
    return _SPACED.sub(_space, text)


def _letters(text: str) -> str:
    return _ESCAPE.sub(_letter, text)


def _letter(found: re.Match[str]) -> str:
    if found[2]:
        return chr(int(found[2], 8))
    return chr(int(found[1] or found[3], 16))


def _slice(found: re.Match[str], values: dict[str, str]) -> str:
    value = values.get(found[1])
    if value is None:
        return found[0]
    start = int(found[2])
    return value[start : start + int(found[3])]


def _space(found: re.Match[str]) -> str:
    return f"{found[1]} {found[2].replace(',', ' ')}" if found[1] else " "
