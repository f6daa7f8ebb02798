"""Reads the corpora of secrets and look-alikes; the letters are drawn anew, always the same."""

import base64
import random
import re
import string
from pathlib import Path

_HERE = Path(__file__).parent / "corpora"
_LETTERS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "b": string.ascii_letters + string.digits + "+/",
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase,
    "d": string.digits,
}
_PLACE = re.compile(r"\{([ahbuld])(\d+)\}")
_SECRET = re.compile("⟪(.*?)⟫", re.DOTALL)
_BASE64 = re.compile(r"\{base64:(.*?)\}(?=⟫)")


def lines(name: str, seed: int = 1) -> list[str]:
    drawn = random.Random(seed)

    def draw(place: re.Match[str]) -> str:
        letters, size = _LETTERS[place[1]], int(place[2])
        while True:
            word = "".join(drawn.choice(letters) for _ in range(size))
            if place[1] not in "ab" or size < 6 or _mixed(word):
                return word

    text = (_HERE / name).read_text("utf-8")
    return [
        _unescaped(_BASE64.sub(_encoded, _PLACE.sub(draw, line)))
        for line in text.splitlines()
        if line and not line.startswith("# ")
    ]


def _encoded(place: re.Match[str]) -> str:
    return base64.b64encode(place[1].encode()).decode()


def _unescaped(line: str) -> str:
    return line.replace("\\n", "\n").replace("\\e", "\x1b").replace("\\z", "\u200b")


def secrets(seed: int = 1, name: str = "secrets.txt") -> list[tuple[str, str, str, str]]:
    """Text, what stands before the secret, the secret, what stands after it."""
    found = []
    for line in lines(name, seed):
        before, secret, after = _SECRET.split(line, maxsplit=1)
        after = _SECRET.sub(r"\1", after)
        found.append((before + secret + after, before, secret, after))
    return found


def _mixed(word: str) -> bool:
    """What is meant to be jumbled is jumbled: a short draw may lack a digit by chance."""
    return any(letter.isdigit() for letter in word) and word != word.lower()
