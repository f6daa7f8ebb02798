"""Addresses of hosts and pages: what is asked, sent or changed by fetching one."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from urllib.parse import unquote

from hermes.policy.commands.calls import LOCAL_HOST, LOOPBACK_HOST, ProgramCall
from hermes.policy.commands.placeholders import (
    SYSTEM_NAME,
    UNKNOWN_TEXT,
    display_text,
    has_untrusted_text,
    literal_text,
)
from hermes.policy.programs.resource_access import access_of

URL = re.compile(
    r"(?:([a-zA-Z][\w+.-]*)://)?(?:([^/@]*)@)?(\[[0-9a-fA-F:.]+\]|[^/:?#]*)(?::([^/?#]*))?(.*)",
    re.S,
)
CLOUD_METADATA_HOST = re.compile(
    r"(?:169\.254\.169\.254|169\.254\.170\.\d+|100\.100\.100\.200|\[?fd00:ec2::254\]?|metadata"
    r"|instance-data(?:\.ec2\.internal)?"
    r"|metadata\.google\.internal|metadata\.goog|metadata\.azure\.\w+|2852039166|0xa9fea9fe"
    r"|0251\.0376\.0251\.0376|169\.16689662|0xa9\.0xfe\.0xa9\.0xfe)\.?\Z",
    re.I,
)
_SECRET_ADDRESS = re.compile(
    r"/api/v1/(?:[^?]*/)?secrets(?:[/?]|\Z)|/v1/(?:secret|kv|auth/token|identity)/|/v2/keys(?:[/?]|\Z)"
    r"|/actuator/(?:env|heapdump|configprops)\b|/\.(?:env|git/config|aws/|ssh/|htpasswd|npmrc)"
    r"|/(?:latest|computeMetadata|metadata)/(?:meta-data/iam|v1/[^?]*/token|identity)",
    re.I,
)
"""Addresses at which clusters, stores of keys and frameworks hand out secrets to anybody."""
_ENCODED_DATA = re.compile(r"[0-9a-fA-F]{24,}|[A-Za-z0-9+_-]{48,}")


def mark_address(call: ProgramCall, url: str) -> None:
    """Marks the effects of fetching a URL or contacting a host."""
    found = URL.match(url.strip())
    if found is None:
        return
    if re.search(r"[\x00-\x1f]", url.strip()):
        call.mark("network-out", "a line break in an address: more is sent")
    scheme, user, host, port, rest = found.groups()
    if _may_change(host, rest):
        call.mark("network-out", f"{display_text(rest)} may be taken for a change")
    if scheme and scheme.lower() == "file":
        _read_file_address(call, host + rest)
        return
    if CLOUD_METADATA_HOST.match(host) or _is_numeric_host(host):
        call.mark("secret-read", f"{display_text(host)} hands out credentials of the machine")
    if _SECRET_ADDRESS.search(unquote(rest)):
        call.mark("secret-read", f"{display_text(rest)} hands out secrets")
    scheme = scheme or (guessed[1] if (guessed := _GUESSED_SCHEME.match(host)) else "http")
    if scheme.lower() not in ("http", "https", "ws", "wss", "tcp", "udp"):
        call.mark("network-out", f"{display_text(scheme)}:// is not a plain fetch")
    # A port that is only known at run time may be the end of a user name, with a host behind it.
    before = port if port and has_untrusted_text(port) else user or ""
    call.mark(*classify_host(host, rest, before))
    call.set_target(host=host)


_QUERY_METHOD = re.compile(r"[?&](?:_|x-)?(?:http_?)?method=(?!get\b|head\b|options\b)", re.I)
_ACTING_WORDS = (
    r"(?:delete|remove|undeploy|deploy|redeploy|(?:safe)?restart|shutdown|poweroff|reboot|stop|kill"
    r"|terminate|drop|purge|wipe|truncate|destroy|disable|uninstall|exec|eval|expire_?sessions)"
)
_LOOKING_WORDS = (
    r"(?:get|list|show|view|read|search|find|describe|status|stats?|info|query|count|check|health"
    r"|help|version|details?|history|display|print|ping|test|tail|preview|render|login|&|#|\Z)"
)
_ACTING_ADDRESS = re.compile(
    rf"/[^/?#]+/{_ACTING_WORDS}(?:[/?#]|\Z)|/{_ACTING_WORDS}\?"
    rf"|[?&](?:action|cmd|cmnd|command|op|operation|do|task)=(?!{_LOOKING_WORDS})"
    r"|[?&](?:q|query|sql|stmt)=(?:[\s+(]|%20)*(?:drop|delete|truncate|insert|update|alter|create"
    r"|replace|rename|grant|revoke|kill|attach|detach|optimize|system|set|load|call|exec\w*)(?:[\s+(]|%20)"
    rf"|[?&]stream\.(?:body|url|file)=|[?&]{_ACTING_WORDS}(?:=|&|\Z)",
    re.I,
)
"""Some servers do at a plain GET what the address says; a page at the top is a page."""
_ACTING_PAGE = re.compile(
    r"/(?:[^?#]*/)?(?:(?:safe)?restart|shutdown|poweroff|reboot|halt|stop|kill|terminate|leave"
    r"|purge|flush\w*|quitquitquit|abortabortabort|(?:stop|restart|kill)all|quit|exit|toggle|switch"
    r"|drain|evict|cordon|build|trigger|start|enable|(?:de)?activate|pause|resume|suspend|cancel"
    r"|abort|reset|clear|promote|failover|rotate|rollback|upgrade|reload|run|execute|invoke|launch"
    r"|snapshot|backup|restore|compact|gc|apply|retry|replay|requeue|rebuild|reindex|(?:un)?seal"
    r"|(?:un)?lock|freeze)/?(?:[?#]|\Z)"
    rf"|[^?]*\?(?:.*&)?[\w.-]+=(?:on|off|start|pause|resume|{_ACTING_WORDS})(?:&|\Z)"
    r"|[^?]*\?(?:.*&)?(?:expire|invalidate|reset|clear|cancel|dw|lbset)=",
    re.I,
)
"""What a service of this host or network may do, also at the top."""
_GUESSED_SCHEME = re.compile(r"(dict|imap|ldap|pop3|smtp)\.", re.I)
"""curl takes the beginning of a host for the protocol, where none is named."""


def _may_change(host: str, rest: str) -> bool:
    # Outside quotes, the shell may take `?` for a wildcard.
    plain = unquote(literal_text(rest))
    acting = _QUERY_METHOD.search(plain) or _ACTING_ADDRESS.search(plain)
    return bool(acting or (LOCAL_HOST.match(host) and _ACTING_PAGE.match(plain)))


def _read_file_address(call: ProgramCall, path: str) -> None:
    """`%2e` is a dot, and curl knows braces and ranges."""
    plain = re.sub(r"%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), path)
    call.reads(plain)
    if re.search(r"[{\[]", plain):
        call.mark("secret-read", f"{display_text(path)} stands for files that are not named")


def _is_numeric_host(host: str) -> bool:
    """An address written as one number, which is done only to hide it."""
    return re.fullmatch(r"\d{8,10}|0x[0-9a-fA-F]{8}", host) is not None


def classify_host(host: str, rest: str, user: str) -> tuple[str, str]:
    shown = display_text(host)
    if has_untrusted_text(host) or has_untrusted_text(user):
        return "network-out", f"connects to {shown}, only known at run time"
    if LOCAL_HOST.match(host.replace(SYSTEM_NAME, "0")):
        if has_untrusted_text(rest) and not LOOPBACK_HOST.match(host):
            return "network-out", f"sends what is only known at run time to {shown}"
        return "network-local", f"connects to {shown}"
    if UNKNOWN_TEXT.search(host + rest + user):
        return "network-out", f"sends what is only known at run time to {shown}"
    if (
        "?" in literal_text(rest)
        or user
        or _ENCODED_DATA.search(host + rest)
        or any(len(one) > 40 for one in host.split("."))
    ):
        return "network-out", f"sends data to {shown} in the address"
    return "network-read", f"asks {shown}"


_REDIRECTING_PORTS = ("80", "443")


def mark_redirects(call: ProgramCall, urls: Iterable[str]) -> None:
    """Another host may redirect to a service of this host, at the port that the profile opens."""
    for found in filter(None, map(URL.match, map(str.strip, urls))):
        host, port = found[3], found[4] or ""
        if port and port not in _REDIRECTING_PORTS and not LOCAL_HOST.match(host):
            shown = f"{display_text(host)}:{display_text(port)}"
            call.mark("network-out", f"{shown} may redirect to a service of this host")


_CURL_GLOB = re.compile(r"\{([^{}]*)\}|\[([^\[\]:]*)-([^\[\]:]*)(?::\d+)?\]")
_MAX_ADDRESSES = 64


def addresses_meant(call: ProgramCall, url: str) -> Iterator[str]:
    """The addresses that curl makes of one with braces and ranges; of a range of numbers one."""
    pieces, at, count = list[list[str]](), 0, 1
    for found in _CURL_GLOB.finditer(url):
        pieces += [[url[at : found.start()]], _glob_choices(found)]
        count, at = count * len(pieces[-1]), found.end()
    if count > _MAX_ADDRESSES:
        call.mark("network-out", f"{display_text(url)} stands for many addresses")
        return
    yield from map("".join, product(*pieces, [url[at:]]))


def _glob_choices(found: re.Match[str]) -> list[str]:
    listed, first, last = found.groups()
    if listed is not None:
        return listed.split(",")
    if len(first) == len(last) == 1 and not first.isdigit():
        return [chr(code) for code in range(ord(first), ord(last) + 1)]
    return [first]


_ADDRESS_WORD = re.compile(r"https?://(?:[^/@\s]*@)?([^/:?#\s]*)(?::\d+)?([/?]\S*)", re.I)


def mark_acting_addresses(call: ProgramCall) -> None:
    """Not only curl: git, pip and npm fetch the address that they are given."""
    reaches = not call.effects.keys().isdisjoint({"network-read", "network-local"})
    if not reaches and not access_of(call.program).network:
        return
    for found in filter(None, map(_ADDRESS_WORD.search, call.argv[1:])):
        if _may_change(found[1], found[2]):
            call.mark("network-out", f"{display_text(found[2])} may be taken for a change")
