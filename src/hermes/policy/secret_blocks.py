"""Secrets of several lines: key files, vaults, and manifests whose values are all secret."""

import re
from collections.abc import Iterator
from itertools import pairwise

from hermes.policy.folded_text import Span

_KEY_BODY = re.compile(
    r"(?m)^[ \t]*(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})\r?\n"
    r"(?:[ \t]*[A-Za-z0-9+/]{8,76}={0,2}(?:\r?\n|$))+"
)
"""At least two lines as wide as OpenSSL and OpenSSH write them."""
_DIGEST = re.compile(r"\s*(?:[0-9a-f]{64}|[0-9A-F]{64})\s")
"""A list of SHA-256 digests has lines of that width, too."""
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{4,76}={0,2}")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY")
_KEY_START = re.compile(
    r"(?<![A-Za-z0-9+/])(?:b3BlbnNzaC1rZXktdjE|MII[A-Za-z0-9+/]{2}(?:IBADANBg|IBAAKC|QIBAAK)"
    r"|LS0tLS1CRUdJTiB[A-Za-z0-9+/]{0,12}(?:UFJJVkFURS|QUklWQVRF|BSSVZBVEUg))"
    r"[A-Za-z0-9+/=]*(?:\r?\n[ \t]*[A-Za-z0-9+/=]{16,})*"
)
_KEY_MARKS = ("b3BlbnNzaC1rZXktdjE", "MII", "LS0tLS1CRUdJTiB")
_KEY_WIDTHS = (64, 70)
_PUBLIC = re.compile(
    r"-----BEGIN (?:CERTIFICATE|[A-Z ]*PUBLIC KEY)[^-]*-----.*?-----END [^-]+-----", re.DOTALL
)
_PUTTY = re.compile(r"Private-Lines: \d+\r?\n(?P<secret>(?:[A-Za-z0-9+/=]+\s*)+?)(?=Private-MAC|$)")
_VAULT = re.compile(r"\$ANSIBLE_VAULT;[^\n]*\n(?P<secret>(?:[ \t]*[0-9a-f]{2,}[ \t]*\r?\n?)+)")
_MINISIGN = re.compile(r"secret key\r?\n(?P<secret>RWR[A-Za-z0-9+/]{40,}={0,2})")
_DOCUMENT = re.compile(r"(?m)^(?:---|[ \t]*- apiVersion:)")
_SECRET_KIND = re.compile(r"[\"']?kind[\"']?\s*:\s*[\"']?Secret\b")
_YAML_DATA = re.compile(
    r"(?m)^(?P<indent>[ \t]*)(?:- )?(?:data|stringData):[ \t]*\n"
    r"(?P<body>(?:(?P=indent)[ \t]+\S.*(?:\n|$)|[ \t]*\n)+)"
)
_YAML_VALUE = re.compile(
    r"(?m)^[ \t]+[\w.\"'-]+:[ \t]*(?P<secret>[^\s|>][^\n]*|[|>][^\n]*\n(?:[ \t]{4,}\S[^\n]*\n?)+)"
)
_JSON_DATA = re.compile(r"\"(?:data|stringData)\"\s*:\s*\{(?P<body>[^{}]{0,100000})\}")
_JSON_VALUE = re.compile(r":\s*\"(?P<secret>(?:[^\"\\]|\\.)+)\"")


def block_spans(text: str) -> Iterator[Span]:
    yield from _key_bodies(text)
    for mark, pattern, name in (
        ("Private-Lines:", _PUTTY, "private-key"),
        ("$ANSIBLE_VAULT", _VAULT, "ansible-vault"),
        ("secret key", _MINISIGN, "private-key"),
    ):
        if mark in text:
            yield from ((*found.span("secret"), name) for found in pattern.finditer(text))
    if "Secret" in text and _SECRET_KIND.search(text):
        yield from _manifests(text)


def _key_bodies(text: str) -> Iterator[Span]:
    """Parts of a private key whose first or last line was cut off."""
    found: list[tuple[int, int]] = []
    if any(mark in text for mark in _KEY_MARKS):
        found += (match.span() for match in _KEY_START.finditer(text))
    if "PRIVATE KEY" in text:
        found += ((_body_start(text, end.start()), end.start()) for end in _KEY_END.finditer(text))
    if any(len(line.strip()) in _KEY_WIDTHS for line in text.split("\n")):
        found += (m.span() for m in _KEY_BODY.finditer(text) if not _DIGEST.match(m.group()))
    if not found:
        return
    public = [match.span() for match in _PUBLIC.finditer(text)]
    for start, end in found:
        if not any(first <= start < last for first, last in public):
            yield start, start + len(text[start:end].rstrip()), "private-key"


def _body_start(text: str, end: int) -> int:
    """Where the lines begin that belong to the key that ends here."""
    start = end
    while start:
        line = text.rfind("\n", 0, start - 1) + 1
        if not _KEY_LINE.fullmatch(text[line:start].strip()):
            break
        start = line
    return start


def _manifests(text: str) -> Iterator[Span]:
    """Every value below `data` or `stringData` of a Kubernetes Secret, whatever its name is."""
    starts = [0, *(match.start() for match in _DOCUMENT.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if _SECRET_KIND.search(text, start, end):
            for block, value in ((_YAML_DATA, _YAML_VALUE), (_JSON_DATA, _JSON_VALUE)):
                for body in block.finditer(text, start, end):
                    for found in value.finditer(text, *body.span("body")):
                        yield *found.span("secret"), "kubernetes-secret"
