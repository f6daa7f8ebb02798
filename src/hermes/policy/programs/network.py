"""Programs that connect to other hosts: distinguishes reading a URL from sending data."""

import re
from itertools import pairwise
from posixpath import basename

from hermes.policy.commands.calls import LOCAL_HOST, LOOPBACK_HOST, ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
)
from hermes.policy.commands.tables import ParsedArguments, ProgramEntry, parse_arguments
from hermes.policy.programs.addresses import (
    CLOUD_METADATA_HOST,
    URL,
    addresses_meant,
    classify_host,
    mark_acting_addresses,
    mark_address,
    mark_redirects,
)
from hermes.policy.programs.resource_access import access_of, is_on_remote_host
from hermes.policy.programs.table_effects import apply_table

_HEADER_METHOD = re.compile(
    r"\s*(?:x-)?(?:http-)?method(?:-override)?\s*:\s*(?!get\b|head\b|options\b)|\s*x-original-",
    re.I,
)
"""Servers take these for the method of the request, or the path that is meant."""


def _mark_chosen_method(call: ProgramCall, header: str) -> None:
    if _HEADER_METHOD.match(header):
        call.mark("network-out", f"{display_text(header)} makes it another request")


def curl(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    if found.loose and not _only_addresses(found):
        call.dynamic("a word only known at run time may be an option")
    _mark_sent_data(call, found)
    urls = [*found.words, *found.values("--url")]
    if not found.has("-g", "--globoff"):
        urls = [each for url in urls for each in addresses_meant(call, url)]
    for url in urls:
        mark_address(call, _with_query(url, found))
    mark_redirects(call, urls if found.has("-L", "--location", "--location-trusted") else ())
    _check_sent_files(call, found)
    _check_connect_options(call, found, urls)
    _check_daemon_requests(call, found, urls)
    _check_known_options(call, found, entry)
    _split_requests(call, found)
    method = (found.value("-X", "--request") or "GET").upper()
    if method not in ("GET", "HEAD", "OPTIONS", "PROPFIND"):
        call.mark("network-out", f"curl -X {display_text(method)}")
        if method == "DELETE":
            call.mark("delete", "curl -X DELETE")
    for header in found.values(
        "-H", "--header", "-b", "--cookie", "-A", "--user-agent", "-e", "-u", "--proxy-header"
    ):
        _mark_chosen_method(call, header)
        if header.startswith("@"):
            call.reads(header[1:])
            call.mark("network-out", "sends headers of a file, with whatever lines it has")
    if found.has("-u", "--user", "--oauth2-bearer") and "network-read" in call.effects:
        call.mark("network-out", "credentials go to another machine")
    if found.has("-O", "--remote-name", "-J", "--remote-name-all", "--output-dir"):
        call.mark("write", "curl keeps the file")
    return ANY_WORD


def _check_connect_options(call: ProgramCall, found: ParsedArguments, urls: list[str]) -> None:
    """`--resolve host:port:addresses`, `--connect-to host:port:host:port` and `--proto-default`
    change the target."""
    if (scheme := found.value("--proto-default") or "https") not in ("http", "https"):
        call.mark("network-out", f"{display_text(scheme)}:// is not a plain fetch")
    split_at = re.compile(r":(?![^\[]*\])")
    targets = [split_at.split(each)[2:3] for each in found.values("--connect-to")]
    for each in found.values("--resolve"):
        targets.append(":".join(split_at.split(each)[2:]).split(","))
    for host in (host for target in targets for host in target if host):
        if CLOUD_METADATA_HOST.match(host):
            call.mark("secret-read", f"{display_text(host)} hands out credentials of the machine")
        for url in filter(None, map(URL.match, map(str.strip, urls))):
            call.mark(*classify_host(host, url.group(5), url.group(2) or ""))


def _check_known_options(call: ProgramCall, found: ParsedArguments, entry: ProgramEntry) -> None:
    for option in sorted(found.names() - entry.grammar.values - entry.grammar.flags):
        call.mark("unknown", f"curl {display_text(option)} is not a known option")


_CONTAINER_DAEMON = re.compile(r"docker|podman|containerd|crio|lxd|incus|:237[56]\b")
_DAEMON_READ = re.compile(
    r"(?:/v[\d.]+)?/(?:version|info|_ping|(?:containers|images)/json|networks|volumes)(?:\?.*)?\Z"
)


def _check_daemon_requests(call: ProgramCall, found: ParsedArguments, urls: list[str]) -> None:
    """A daemon of containers tells their variables, and gives out their files."""
    sockets = found.values("--unix-socket", "--abstract-unix-socket")
    for url in filter(None, map(URL.match, map(str.strip, urls))):
        daemon = any(map(_CONTAINER_DAEMON.search, (*sockets, f":{url.group(4)}")))
        if (daemon or any(map(has_untrusted_text, sockets))) and not _DAEMON_READ.match(
            url.group(5)
        ):
            call.mark("secret-read", "asks the container daemon for more than a list")


def _check_sent_files(call: ProgramCall, found: ParsedArguments) -> None:
    """Files whose content goes to the server, or to the output."""
    sent = found.values("--etag-compare")
    sent += [value for value in found.values("-b", "--cookie") if "=" not in value]
    for file in sent:
        call.reads(file)
        call.mark("network-out", f"curl sends what is in {display_text(file)}")
    if found.has("-n", "--netrc", "--netrc-optional", "--netrc-file"):
        call.mark("network-out", "passwords of a netrc file go to the host")
    if any(url.startswith("@") for url in found.values("--url")):
        call.mark("network-out", "curl asks for the addresses in a file")
    for form in found.values("-w", "--write-out"):
        if form.startswith("@"):
            call.reads(form[1:])


_OUTPUT_OPTIONS = frozenset({"-w", "--write-out", "-o", "--output"})
_UNSENT_OPTIONS = {
    "curl": _OUTPUT_OPTIONS
    | word_set(
        "-m --max-time --connect-timeout --retry --retry-delay --retry-max-time --limit-rate"
        " --max-filesize --max-redirs -y -Y --cacert --capath --crlfile -E --cert --key --interface"
        " --local-port --keepalive-time --output-dir -D --dump-header -c --cookie-jar --trace"
        " --trace-ascii --stderr --unix-socket --url --resolve --connect-to"
    ),
    "wget": word_set(
        "-O --output-document -o --output-file -a --append-output -P --directory-prefix -t --tries"
        " -T --timeout --connect-timeout --read-timeout --dns-timeout -w --wait --waitretry -Q"
        " --quota --limit-rate -l --level --ca-certificate --ca-directory --certificate"
        " --private-key"
    ),
}
"""Options whose value stays on this machine, or is checked as an address."""


def _split_requests(call: ProgramCall, found: ParsedArguments) -> None:
    """A line break in a header or similar option starts another header or request.

    Text that is only known at run time may hold one, whatever host it is for.
    """
    unsent = _UNSENT_OPTIONS.get(call.program, frozenset())
    for option, value in found.options:
        if value and option not in _OUTPUT_OPTIONS and re.search(r"[\r\n]", value):
            call.mark("network-out", f"{call.program} {option} holds a line break: more is sent")
        elif value and option not in unsent and has_untrusted_text(value):
            shown = f"{call.program} {display_text(option)}"
            call.mark("network-out", f"{shown} sends what is only known at run time")


_BODY_OPTIONS = (
    "-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii", "--json",
    "--url-query",
)  # fmt: skip


def _mark_sent_data(call: ProgramCall, found: ParsedArguments) -> None:
    """Data is sent, unless -G makes it a query to an internal host."""
    for value in found.values(*_BODY_OPTIONS):
        file = value.partition("@")[2] if "@" in value.partition("=")[0] else ""
        if file and not has_untrusted_text(file):
            call.reads(file)
        local = [URL.match(url.strip()) for url in found.words]
        near = all(one and LOCAL_HOST.match(one.group(3)) for one in local) and bool(local)
        if not (found.has("-G", "--get") and near and not file and not has_untrusted_text(value)):
            call.mark("network-out", "curl sends data")


def _with_query(url: str, found: ParsedArguments) -> str:
    """`-G` and `--url-query` send the data as a part of the address."""
    options = _BODY_OPTIONS if found.has("-G", "--get") else ("--url-query",)
    values = found.values(*options)
    return url + ("&" if "?" in url else "?") * bool(values) + "&".join(values)


def _only_addresses(found: ParsedArguments) -> bool:
    return all("/" in word or "." in word or ":" in word for word in found.loose)


def wget(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    for url in found.words:
        mark_address(call, url)
    mark_redirects(call, found.words)
    for header in found.values("--header"):
        _mark_chosen_method(call, header)
    target = found.value("-O", "--output-document")
    quiet = found.has("--spider") or target in ("-", "/dev/null", "/dev/stdout")
    joined = any(re.fullmatch(r"-[qnv]*O-", word) for word in call.argv)
    if not quiet and not joined:
        folder = (found.value("-P", "--directory-prefix") or ".").rstrip("/") or "/"
        name = basename(found.words[0].partition("?")[0]) if found.words else SYSTEM_NAME
        call.writes(target or f"{folder}/{name or 'index.html'}", "wget keeps the file")
    _split_requests(call, found)
    method = found.value("--method") or "GET"
    if method.upper() not in ("GET", "HEAD"):
        call.mark("network-out", f"wget --method {display_text(method)}")
    return ANY_WORD


def name_lookup(call: ProgramCall, entry: ProgramEntry) -> str:
    """dig, host, nslookup, ping and others: the host name itself can carry data."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    for word in found.words:
        if not word.startswith("+") and not re.fullmatch(r"[A-Z]{1,8}\d?|\d{1,5}(?:-\d+)?", word):
            mark_address(call, word.lstrip("@"))
    if found.has("-f") and call.program in _BATCH_LOOKUPS:
        call.mark("network-out", f"{call.program} -f asks for each line of a file")
    if call.program == "nslookup" and call.stdin is not None:
        call.mark("network-out", "nslookup asks for what is piped in")
    return ANY_WORD


_BATCH_LOOKUPS = frozenset({"dig", "kdig", "drill", "delv", "fping"})


def getent(call: ProgramCall, entry: ProgramEntry) -> str:
    """getent: hosts are looked up by name servers, unless it is limited to local files."""
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    words = found.words
    if found.value("-s", "--service") == "files":
        return ANY_WORD
    if words[:1] and words[0] in ("hosts", "ahosts", "ahostsv4", "ahostsv6"):
        for word in words[1:]:
            mark_address(call, word)
    return ANY_WORD


def resolvectl(call: ProgramCall, entry: ProgramEntry) -> str:
    """`resolvectl query name`: the resolver asks other hosts for the name."""
    apply_table(call, entry)
    words = parse_arguments(call.argv[1:], entry.grammar).words
    if words[:1] and words[0] in ("query", "service", "openpgp", "tlsa"):
        for word in words[1:]:
            mark_address(call, word)
    if any(map(has_untrusted_text, call.argv[1:])):
        call.mark("network-out", "resolvectl asks for what is only known at run time")
    return ANY_WORD


def httpie(call: ProgramCall, entry: ProgramEntry) -> str:
    """httpie: the method is a word; items with = are sent."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    words = found.words
    named = len(words) > 1 and words[0].isalpha()
    method = words[0].upper() if named else "GET"
    rest = words[1:] if named else words
    if rest:
        mark_address(call, rest[0])
    for word in rest[1:]:
        _mark_chosen_method(call, word)
    if method not in ("GET", "HEAD", "OPTIONS") or any(
        "=" in word or "@" in word for word in rest[1:]
    ):
        call.mark("network-out", "sends data")
    if call.stdin is not None:
        call.mark("network-out", "sends what is piped in")
    if any(has_untrusted_text(word) for word in call.argv[1:] if word not in rest[:1]):
        call.mark("network-out", "sends what is only known at run time")
    return ANY_WORD


def rclone(call: ProgramCall, entry: ProgramEntry) -> str:
    """rclone and similar programs: a remote defined in an argument can run commands."""
    apply_table(call, entry)
    if any(word.startswith(":") or has_untrusted_text(word[:1]) for word in call.argv[1:]):
        call.dynamic("the remote is described on the command line, and may name a program to run")
    for word in parse_arguments(call.argv[1:], entry.grammar).words[1:]:
        if ":" not in word.partition("/")[0]:
            call.reads(word)
    return ANY_WORD


_PARAMETER_FILE = re.compile(r"(?:^|=)fileb?://(.+)", re.S)


def _expand_home(call: ProgramCall, path: str) -> str:
    """`file://~/x`: the program expands it, not the shell."""
    return call.scope.home + path[1:] if path.startswith("~/") else path


def aws(call: ProgramCall, entry: ProgramEntry) -> str:
    """aws: with a custom endpoint, requests and their signatures are sent there."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    for word in call.argv[1:]:
        if file := _PARAMETER_FILE.search(word):  # it prints what it cannot read as a parameter
            call.reads(_expand_home(call, file[1]))
    address = found.value("--endpoint-url")
    host = (address or "").partition("://")[2].partition("/")[0].rpartition(":")
    if address and not LOOPBACK_HOST.match(host[0] or host[2]):
        call.mark("network-out", f"requests go to {display_text(address)}")
    return ANY_WORD


_PEER_OPTION = (
    r"-h|-H|-(?:agent-)?address|-(?:http-)?addr|--(?:host|hostname|server|endpoint|endpoints"
    r"|registry|repo|index-url|url|uri|address|addr|http-addr|connect|kubeconfig|proxy"
    r"|alertmanager\.url|kube-apiserver)"
)
"""Options by which the caller chooses the server of a client."""
_NAMED_HOST = re.compile(
    rf"\S*://|[\w-]+(?:\.[\w-]+)+(?::\d+)?/|host(?:addr)?=|(?:{_PEER_OPTION})(?:=|\Z)"
)
"""Words by which a client of a configured service asks another host instead."""
_THIS_HOST = re.compile(
    r"(?:[\w.-]+=)?(?:\w+://)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?![\w.])(?!\S*@)|/"
)
"""A loopback address or a socket; what stands before an `@` is a user, not a host."""
_LOGIN_PROGRAMS = word_set(
    "vault bao consul nomad argocd etcdctl helm helm3 helmfile flux logcli amtool influx s3cmd oc"
    " kubectl k stern linkerd istioctl velero supervisorctl"
)
"""Clients that send a token of their configuration to whatever server they are told."""
_LOGIN_OPTION = re.compile(
    r"-s(?:\Z|http)|-{1,2}(?:(?:agent-)?address|(?:http-)?addr|server(?:url)?|endpoints?|host"
    r"|alertmanager\.url|kube-apiserver)(?:=|\Z)"
)


def mark_unknown_text_sent(call: ProgramCall) -> None:
    """Text that a program of the network gets at run time can leave for another host.

    To this host it may: a secret found at run time is refused when the command opens it."""
    if call.peeled is not None:
        return
    if is_on_remote_host(call.program, call.argv[1:]):
        call.mark("network-read", f"{call.program} asks another host")
    if call.program in _LOGIN_PROGRAMS:
        for server in _option_values(call, _LOGIN_OPTION):
            _mark_login(call, server)
    if call.program == "sleep" and any(map(has_untrusted_text, call.argv[1:])):
        call.scope.content_tests.add("sleep")
    if call.scope.content_tests and "network-read" in call.effects:
        tested = min(call.scope.content_tests)
        call.mark("network-out", f"whether {call.program} asks tells the result of {tested}")
    mark_acting_addresses(call)
    if not any(map(has_untrusted_text, call.argv[1:])):
        return
    if "network-read" in call.effects or _chooses_other_host(call):
        call.mark("network-out", f"{call.program} sends what is only known at run time")


def _option_values(call: ProgramCall, pattern: re.Pattern[str]) -> list[str]:
    """The words that match, or the words after them where those are options without a value."""
    following = dict(pairwise(call.argv))
    return [
        following.get(word, "") if re.fullmatch(r"-[^=:]*", word) else word.removeprefix("-s")
        for word in call.argv[1:]
        if pattern.match(word)
    ]


def _mark_login(call: ProgramCall, server: str) -> None:
    for address in server.rpartition("=")[2].split(","):
        found = URL.match(address)
        if found and not LOCAL_HOST.match(found.group(3).replace(SYSTEM_NAME, "0")):
            call.mark("network-out", f"{call.program} logs in to {display_text(address)}")


def _chooses_other_host(call: ProgramCall) -> bool:
    if not access_of(call.program).network:
        return False
    return any(not _THIS_HOST.match(host) for host in _option_values(call, _NAMED_HOST))
