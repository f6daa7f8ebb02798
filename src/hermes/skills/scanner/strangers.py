"""Addresses that stand in the code of a skill and nowhere in what it says: whose are they?"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes.skills.scanner.deed import far
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.run_by_others import is_settings
from hermes.skills.scanner.shell_text import bounded
from hermes.skills.scanner.shell_unfolded import unfolded
from hermes.skills.scanner.signs import signs

_PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt", ".csv", ".tsv")
_ADDRESS = re.compile(
    r"(?:https?|ftps?|wss?|tcp|udp|ldaps?|rsync|git|ssh|redis|amqp|mqtt)://"
    r"(?:[^/@\s\"']*@)?([a-z0-9_-]+(?:\.[a-z0-9_-]+)+)",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"[\"'@]([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|ru|cn|xyz|top|test|example|invalid|"
    r"info|site|online|cc|tk|cloud|link|click|live))(?:[\"':/]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_SET = re.compile(
    r"\b(?:host|hostname|target|server|address|endpoint|url|remote\w*)[\"']?"
    r"[ \t]*(?:=|:|[ \t])[ \t]*[\"']?"
    r"([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|ru|cn|xyz|top|test|info|site|online|cc|tk|"
    r"cloud|link|click|live))(?![\w.-])",
    re.IGNORECASE,
)
"""A setting that says where something goes."""
_JOINED = re.compile(r"[\"']\.[\"']\.join\(\s*[(\[]((?:\s*[\"'][\w-]+[\"']\s*,?){2,6})\s*[)\]]")
_NUMBERS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_DEVICE = re.compile(r"/(?:dev|inet\d?)/(?:tcp|udp)/(?:\d+/)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.I)
_REMARK = re.compile(r"^[ \t]*(?:#(?!!)|//|--|;|\*|<!--)[^\n]*", re.MULTILINE)
_TALKS = re.compile(
    r"socket|requests|httpx|urllib|http|smtp|ftp|fetch|connect|\bnc\b|\bssh\b|\bdig\b|nslookup|"
    r"\bping\b|resolve|curl|wget|rsync|mail",
    re.IGNORECASE,
)
_GIVES = re.compile(
    r"\bheaders\s*=\s*\{[^}]*:\s*[a-z_]+\s*[,}]|\b(?:post|put|patch|upload\w*|send\w*|storbinary|exec|eval|system|popen)\b|-d\s|--data|\s-F\s|"
    r"\s-T\s|\|\s*(?:ba|z)?sh\b|\$\(\s*(?:curl|wget)|chmod|\btar\s+-?\w*x|\bunzip\b|extractall|/dev/(?:tcp|udp)|/inet|\bnc\b|ssh://",
    re.IGNORECASE,
)


def look_at_addresses(texts: Sequence[tuple[str, str]], purpose: Purpose) -> Iterator[Finding]:
    """Fetching from a place that is not named is noted where the description speaks of fetching."""
    told: set[str] = set()
    for path, text in texts:
        if PurePosixPath(path).suffix.casefold() in _PROSE:
            continue
        code = bounded(_REMARK.sub("", text))
        settings = is_settings(path) and not text.startswith("#!")
        gets = not settings and not _GIVES.search(code)
        gets = gets and purpose.owns_up_to("network", shortly=True)
        for at, host in _hosts(code, settings=settings):
            if host in told or not _foreign(host, purpose):
                continue
            told.add(host)
            number = host.replace(".", "").isdigit()
            cause = f"it knows the address {host!r}, of which its text does not speak"
            yield Finding(
                kind="capability",
                file=path,
                line=code.count("\n", 0, at) + 1,
                cause=cause,
                blocks=number or not gets,
            )


def _hosts(code: str, *, settings: bool) -> Iterator[tuple[int, str]]:
    usual = signs("shell", "trusted_installers")[0].pattern
    for found in _ADDRESS.finditer(code):
        if not usual.match(code, found.start()):
            yield found.start(), found[1].casefold()
    for pattern in (_DEVICE, _SET) if settings else (_DEVICE,):
        yield from ((found.start(), found[1].casefold()) for found in pattern.finditer(code))
    for found in _JOINED.finditer(code):
        yield found.start(), ".".join(re.findall(r"[\w-]+", found[1])).casefold()
    if settings or _TALKS.search(code):
        for found in _BARE.finditer(code):
            yield found.start(), found[1].casefold()
        for found in _NUMBERS.finditer(code):
            if signs("python", "far")[0].pattern.fullmatch(found[0]):
                yield found.start(), found[0]
    plain = unfolded(code) if len(code) < 64 << 10 else code
    if plain != code:
        fresh = (found for found in _ADDRESS.finditer(plain) if not usual.match(found[0]))
        yield from ((0, found[1].casefold()) for found in fresh)


def _foreign(host: str, purpose: Purpose) -> bool:
    if not far(host) or signs("places", "public")[0].pattern.fullmatch(host):
        return False
    return not purpose.names(host)
