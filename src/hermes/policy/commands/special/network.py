"""Programs that talk to other machines: looking at a URL is one thing, sending is another."""

import re
from posixpath import basename

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.hosts import LOCAL, LOOPBACK
from hermes.policy.commands.marks import ANY, NAME, UNKNOWN, foreign, literal, shown
from hermes.policy.commands.options import Arguments, split
from hermes.policy.commands.tables import Program

_URL = re.compile(
    r"(?:([a-zA-Z][\w+.-]*)://)?(?:([^/@]*)@)?(\[[0-9a-fA-F:.]+\]|[^/:?#]*)(?::([^/?#]*))?(.*)",
    re.S,
)
_METADATA = re.compile(
    r"(?:169\.254\.169\.254|169\.254\.170\.\d+|100\.100\.100\.200|\[?fd00:ec2::254\]?|metadata"
    r"|metadata\.google\.internal|metadata\.goog|metadata\.azure\.\w+|2852039166|0xa9fea9fe"
    r"|0251\.0376\.0251\.0376|169\.16689662|0xa9\.0xfe\.0xa9\.0xfe)\.?\Z",
    re.I,
)
_STRANGE = re.compile(r"[0-9a-fA-F]{24,}|[A-Za-z0-9+_-]{48,}")


def address(call: Call, url: str) -> None:
    """Mark what fetching a URL, or naming a host, does."""
    found = _URL.match(url.strip())
    if found is None:
        return
    scheme, user, host, _, rest = found.groups()
    if scheme and scheme.lower() == "file":
        call.reads(host + rest)
        return
    if _METADATA.match(host) or _numeric(host):
        call.mark("secret-read", f"{shown(host)} hands out credentials of the machine")
    if scheme and scheme.lower() not in ("http", "https", "ws", "wss", "tcp", "udp"):
        call.mark("network-out", f"{shown(scheme)}:// is not a plain fetch")
    call.mark(*_where(host, rest, user or ""))
    call.aim(host=host)


def _numeric(host: str) -> bool:
    """An address written as one number, which people do only to hide it."""
    return re.fullmatch(r"\d{8,10}|0x[0-9a-fA-F]{8}", host) is not None


def _where(host: str, rest: str, user: str) -> tuple[str, str]:
    said = shown(host)
    if foreign(host) or foreign(user):
        return "network-out", f"connects to {said}, only known at run time"
    if LOCAL.match(host.replace(NAME, "0")):
        if foreign(rest) and not LOOPBACK.match(host):
            return "network-out", f"sends what is only known at run time to {said}"
        return "network-local", f"connects to {said}"
    if UNKNOWN.search(host + rest + user):
        return "network-out", f"sends what is only known at run time to {said}"
    if (
        "?" in literal(rest)
        or user
        or _STRANGE.search(host + rest)
        or any(len(one) > 40 for one in host.split("."))
    ):
        return "network-out", f"sends data to {said} in the address"
    return "network-read", f"asks {said}"


def curl(call: Call, entry: Program) -> str:
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    if found.loose and not _only_addresses(found):
        call.dynamic("a word only known at run time may be an option")
    _sends(call, found)
    urls = [*found.words, *found.values("--url")]
    for url in urls:
        address(call, url)
    _redirected(call, found, urls)
    _split_requests(call, found)
    method = (found.value("-X", "--request") or "GET").upper()
    if method not in ("GET", "HEAD", "OPTIONS", "PROPFIND"):
        call.mark("network-out", f"curl -X {shown(method)}")
        if method == "DELETE":
            call.mark("delete", "curl -X DELETE")
    for header in found.values(
        "-H", "--header", "-b", "--cookie", "-A", "--user-agent", "-e", "-u"
    ):
        if header.startswith("@"):
            call.reads(header[1:])
        if foreign(header) or header.startswith("@"):
            _credential(call, header)
    if found.has("-u", "--user", "--oauth2-bearer") and "network-read" in call.effects:
        call.mark("network-out", "credentials go to another machine")
    if found.has("-O", "--remote-name", "-J", "--remote-name-all", "--output-dir"):
        call.mark("write", "curl keeps the file")
    return ANY


def _redirected(call: Call, found: Arguments, urls: list[str]) -> None:
    """`--resolve host:port:addresses` and `--connect-to host:port:host:port` lead elsewhere."""
    split_at = re.compile(r":(?![^\[]*\])")
    places = [split_at.split(each)[2:3] for each in found.values("--connect-to")]
    for each in found.values("--resolve"):
        places.append(":".join(split_at.split(each)[2:]).split(","))
    for host in (host for place in places for host in place if host):
        for url in filter(None, map(_URL.match, map(str.strip, urls))):
            call.mark(*_where(host, url.group(5), url.group(2) or ""))


_PRINTED = frozenset({"-w", "--write-out", "-o", "--output"})


def _split_requests(call: Call, found: Arguments) -> None:
    """A line break in a header or the like begins another header, or another request."""
    for option, value in found.options:
        if value and option not in _PRINTED and re.search(r"[\r\n]", value):
            call.mark("network-out", f"{call.program} {option} holds a line break: more is sent")


_BODY = (
    "-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii", "--json",
    "--url-query",
)  # fmt: skip


def _sends(call: Call, found: Arguments) -> None:
    """Data goes out, unless -G makes a question of it that stays in the house."""
    for value in found.values(*_BODY):
        file = value.partition("@")[2] if "@" in value.partition("=")[0] else ""
        if file and not foreign(file):
            call.reads(file)
        local = [_URL.match(url.strip()) for url in found.words]
        near = all(one and LOCAL.match(one.group(3)) for one in local) and bool(local)
        if not (found.has("-G", "--get") and near and not file and not foreign(value)):
            call.mark("network-out", "curl sends data")


def _only_addresses(found: Arguments) -> bool:
    return all("/" in word or "." in word or ":" in word for word in found.loose)


def _credential(call: Call, header: str) -> None:
    """A header only known at run time: a token, or anything."""
    if "network-local" in call.effects and "network-out" not in call.effects:
        return
    call.mark("network-out", "a header carries what is only known at run time")


def wget(call: Call, entry: Program) -> str:
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    for url in found.words:
        address(call, url)
    target = found.value("-O", "--output-document")
    quiet = found.has("--spider") or target in ("-", "/dev/null", "/dev/stdout")
    joined = any(re.fullmatch(r"-[qnv]*O-", word) for word in call.argv)
    if not quiet and not joined:
        folder = (found.value("-P", "--directory-prefix") or ".").rstrip("/") or "/"
        name = basename(found.words[0].partition("?")[0]) if found.words else NAME
        call.writes(target or f"{folder}/{name or 'index.html'}", "wget keeps the file")
    _split_requests(call, found)
    if any(foreign(value) for value in found.values("--header", "-U", "--user-agent", "--referer")):
        call.mark("network-out", "a header carries what is only known at run time")
    method = found.value("--method") or "GET"
    if method.upper() not in ("GET", "HEAD"):
        call.mark("network-out", f"wget --method {shown(method)}")
    return ANY


def lookup(call: Call, entry: Program) -> str:
    """dig, host, nslookup, ping and others that name hosts: the name itself can carry data."""
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    for word in found.words:
        if not word.startswith("+") and not re.fullmatch(r"[A-Z]{1,8}\d?|\d{1,5}(?:-\d+)?", word):
            address(call, word.lstrip("@"))
    return ANY


def names(call: Call, entry: Program) -> str:
    """getent: hosts are looked up by asking name servers, unless it is held to local files."""
    by_table(call, entry)
    found = split(call.argv[1:], entry.grammar)
    words = found.words
    if found.value("-s", "--service") == "files":
        return ANY
    if words[:1] and words[0] in ("hosts", "ahosts", "ahostsv4", "ahostsv6"):
        for word in words[1:]:
            address(call, word)
    return ANY


def secure_client(call: Call, entry: Program) -> str:
    """openssl: `s_client` sends what it is fed."""
    by_table(call, entry)
    if "s_client" in call.argv[1:2]:
        fed = call.stdin or ""
        lines = [line for line in fed.splitlines() if line.strip() not in ("Q", "R", "k", "K")]
        if foreign(fed) or not all(map(_QUESTION.match, lines)):
            call.mark("network-out", "openssl s_client sends what is piped into it")
    return ANY


def connection(call: Call, entry: Program) -> str:
    """nc, ncat, telnet: scanning looks, everything else may send or listen."""
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    host = found.words[0] if found.words else ""
    if found.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        call.dynamic("gives a program to whoever connects")
        for text in found.values("-e", "-c", "--exec", "--sh-exec"):
            call.shell(text)
    if found.has("-l", "--listen", "-L") or not host:
        call.mark("network-out", "listens for connections")
        return ANY
    if found.has("-U", "--unixsock"):
        call.mark("network-local", f"talks to {shown(host)}")
    else:
        address(call, host)
    quiet = found.has("-z") or call.program == "telnet"
    local = "network-local" in call.effects
    asks = all(_QUESTION.match(line) for line in (call.stdin or "").splitlines())
    if (not quiet and not local) or not asks:
        call.mark("network-out", f"an open connection to {shown(host)}")
    return ANY


def relay(call: Call, entry: Program) -> str:
    """socat: a known question to a socket of this machine looks; all else is an open door."""
    words = [word for word in call.argv[1:] if not re.fullmatch(r"-[dvtT]\d*|-[tT]", word)]
    ends = [word for word in words if not re.fullmatch(r"-|STDIO|stdio|\d+", word)]
    socket = re.fullmatch(
        r"(?:(?i:unix(?:-connect|-client)?):)?/(?:var/run|run|var/lib|tmp)/[\w./-]+", ends[-1]
    ) if len(ends) == 1 else None  # fmt: skip
    lines = (call.stdin or "").replace(";", "\n").splitlines()
    if socket and lines and all(_QUESTION.match(line.strip()) for line in lines):
        call.mark("network-local", f"asks {shown(ends[0])}")
        return ANY
    return by_table(call, entry) or ANY


_QUESTION = re.compile(
    r"\s*\Z|(?:show|help|stats?|info|ruok|srvr|mntr|conf|cons|version|ping|GET|HEAD|QUIT|quit|EHLO"
    r"|INFO|PING|get|Host:|Connection:)\b[^|]*\Z"
)


def http(call: Call, entry: Program) -> str:
    """httpie: the method is a word, items with = are sent."""
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    words = found.words
    named = len(words) > 1 and words[0].isalpha()
    method = words[0].upper() if named else "GET"
    rest = words[1:] if named else words
    if rest:
        address(call, rest[0])
    if method not in ("GET", "HEAD", "OPTIONS") or any(
        "=" in word or "@" in word for word in rest[1:]
    ):
        call.mark("network-out", "sends data")
    if call.stdin is not None:
        call.mark("network-out", "sends what is piped in")
    return ANY


def storage(call: Call, entry: Program) -> str:
    """rclone and its kin: a remote that is spelled out on the spot brings its own commands."""
    by_table(call, entry)
    if any(word.startswith(":") or foreign(word[:1]) for word in call.argv[1:]):
        call.dynamic("the remote is described on the command line, and may name a program to run")
    return ANY


def endpoint(call: Call, entry: Program) -> str:
    """aws: with an address of the caller's choice, requests and their signatures go there."""
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    address = found.value("--endpoint-url")
    host = (address or "").partition("://")[2].partition("/")[0].rpartition(":")
    if address and not LOOPBACK.match(host[0] or host[2]):
        call.mark("network-out", f"requests go to {shown(address)}")
    return ANY
