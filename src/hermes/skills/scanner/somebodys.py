"""Constants that belong to somebody: a key that lets its owner in, a wallet that would be paid."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.deed import Deed
from hermes.skills.scanner.shell_text import bounded

LARGEST = 256 << 10
_TEXTS = (".md", ".markdown", ".mdx", ".rst")
_DATA = (".csv", ".tsv", ".txt", ".log", ".html", ".svg")
_KEY = re.compile(
    r"^(?P<before>[^\n]*?)(?P<key>(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-ssh-\S+)\s+"
    r"AAAA[\w+/]{20,})",
    re.MULTILINE,
)
_HOST_BEFORE = re.compile(r"(?:[\w*-]+\.[\w.*,:\[\]-]+|\|1\|\S+)\s+$")
"""Whose host it is: a line of `known_hosts`."""
_WALLET = re.compile(
    r"[\"'`=\s](?P<to>bc1[a-z0-9]{30,62}|0x[0-9a-fA-F]{40}|4[0-9AB][1-9A-HJ-NP-Za-km-z]{93})[\"'`\s;]"
)


def constant_deeds(path: str, text: str) -> Iterator[Deed]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in _TEXTS:
        return
    code = bounded(text[:LARGEST])
    for found in _KEY.finditer(code):
        if not _HOST_BEFORE.search(found["before"]):
            shown = found["key"][:60]
            yield Deed(kind="keys", file=path, line=_line(code, found), detail=shown)
            break
    wallet = None if suffix in _DATA else _WALLET.search(code)
    if wallet:
        yield Deed(kind="money", file=path, line=_line(code, wallet), detail=wallet["to"])


def _line(code: str, found: re.Match[str]) -> int:
    return code.count("\n", 0, found.start()) + 1
