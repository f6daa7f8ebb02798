"""What hangs on what: dependencies named in words, and upstreams in configurations and logs."""

import re
from collections.abc import Iterator
from datetime import datetime

from hermes.core.events.memory import Trust
from hermes.memory.facts.entities import services
from hermes.memory.facts.fact import Candidate, one_line, words

_NAME = r"(/[\w./-]{2,80}|[A-Za-z][\w.-]{0,60}\w)"
_ADDRESS = r"([A-Za-z0-9][\w.-]{0,80}:\d{2,5})"
_DEPENDS = re.compile(rf"\b{_NAME},?\s+(?:which\s+|that\s+)?depends\s+on\s+{_NAME}")
_CHAIN = re.compile(rf"^,?\s*(?:and\s+)?(?:which|that)\s+depends\s+on\s+{_NAME}")
_CONNECTS = re.compile(rf"\b{_NAME}\s+(?:connects|talks)\s+to\s+(?:{_ADDRESS}|{_NAME})")
_PROXY = re.compile(rf"^\s*(?:proxy_pass|fastcgi_pass|grpc_pass)\s+(?:\w+://)?{_ADDRESS}", re.M)
_UPSTREAM = re.compile(rf"\bupstream:\s*\"\w+://{_ADDRESS}")
_POOL = re.compile(r"\bupstream\s+([\w.-]+)\s*\{([^}]{1,2000})\}")
_SERVER = re.compile(rf"\bserver\s+{_ADDRESS}")
_NOBODY = frozenset(
    words(
        "it this that they he she there which what who everything something nothing one each all "
        "none also always only often mostly really still usually never directly heavily the a an "
        "and or but while when if then than so you we i everyone nobody success"
    )
)


def topology(text: str, seq: int, at: datetime, trust: Trust) -> Iterator[Candidate]:
    """Links in a text, each with the line that says so."""
    seen: set[str] = set()
    for one, relation, other, quote in _links(text):
        said = f"{one} {_SAID[relation]} {other}"
        if {one.casefold(), other.casefold()} & _NOBODY or one == other or said in seen:
            continue
        if trust != "person" and not (_technical(one) or _technical(other)):
            continue  # prose that happens to say so
        seen.add(said)
        yield Candidate(
            memory="semantic",
            text=said,
            quote=quote,
            sources=(seq,),
            about=(one, other.partition(":")[0]),
            relation=relation,
            trust=trust,
            at=at,
        )


def _technical(name: str) -> bool:
    return bool(re.search(r"[\d:/_.-]", name) or services(name))


_SAID = {"depends-on": "depends on", "connects-to": "connects to", "forwards-to": "forwards to"}


def _links(text: str) -> Iterator[tuple[str, str, str, str]]:
    for line in text.splitlines():
        line = line[:1_000]
        yield from _depends(line)
        for found in _CONNECTS.finditer(line):
            yield found[1], "connects-to", found[2] or found[3].rstrip("."), one_line(line, 300)
        for found in (*_PROXY.finditer(line), *_UPSTREAM.finditer(line)):
            yield "nginx", "forwards-to", found[1], one_line(line, 300)
    for pool in _POOL.finditer(text):
        for server in _SERVER.finditer(pool[2]):
            yield pool[1], "forwards-to", server[1], one_line(pool[0], 300)


def _depends(line: str) -> Iterator[tuple[str, str, str, str]]:
    for found in _DEPENDS.finditer(line):
        one, other, end = found[1], found[2], found.end()
        yield one, "depends-on", other, one_line(line, 300)
        while more := _CHAIN.match(line[end:]):
            one, other, end = other, more[1], end + more.end()
            yield one, "depends-on", other, one_line(line, 300)
