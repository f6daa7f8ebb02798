"""Programs that open a connection and send text over it: nc, socat, openssl s_client."""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import ANY_WORD, display_text, has_untrusted_text
from hermes.policy.commands.tables import ProgramEntry, parse_arguments
from hermes.policy.programs.addresses import mark_address
from hermes.policy.programs.table_effects import apply_table


def openssl(call: ProgramCall, entry: ProgramEntry) -> str:
    """openssl: `s_client` sends its input, and what some options say."""
    apply_table(call, entry)
    if any(re.search(r"[\r\n]", word) for word in call.argv):
        call.mark("network-out", "openssl sends a word with a line break: more is sent")
    if call.argv[1:2] == ["s_client"]:
        found = parse_arguments(call.argv[2:], entry.grammar)
        for option in sorted(found.names() - _S_CLIENT_OPTIONS):
            call.mark("network-out", f"openssl s_client {option} is not known to only look")
        if any(map(has_untrusted_text, call.argv)):
            call.mark("network-out", "openssl s_client sends what is only known at run time")
        if (call.stdin or "").strip() not in ("", "Q"):
            call.mark("network-out", "openssl s_client sends what is piped into it")
    return ANY_WORD


_S_CLIENT_OPTIONS = word_set(
    "-connect -host -port -servername -noservername -showcerts -starttls -brief -quiet -ign_eof"
    " -no_ign_eof -verify -verify_return_error -verify_hostname -verify_quiet -CAfile -CApath -cert"
    " -key -tls1 -tls1_1 -tls1_2 -tls1_3 -no_tls1 -no_tls1_1 -no_tls1_2 -no_tls1_3 -no_ssl3 -cipher"
    " -ciphersuites -alpn -nextprotoneg -status -state -prexit -reconnect -no_ticket -4 -6 -groups"
    " -curves -sigalgs -security_debug -tlsextdebug -nameopt -name -x509_strict -partial_chain"
)


def netcat(call: ProgramCall, entry: ProgramEntry) -> str:
    """nc, ncat, telnet: scanning only reads, everything else may send or listen."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    apply_table(call, entry)
    host = found.words[0] if found.words else ""
    if found.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        call.dynamic("gives a program to whoever connects")
        for text in found.values("-e", "-c", "--exec", "--sh-exec"):
            call.shell(text)
    if found.has("-l", "--listen", "-L") or not host:
        call.mark("network-out", "listens for connections")
        return ANY_WORD
    if found.has("-U", "--unixsock"):
        call.mark("network-local", f"talks to {display_text(host)}")
    else:
        mark_address(call, host)
    quiet = found.has("-z") or call.program == "telnet"
    local = "network-local" in call.effects
    asks = all(_READ_ONLY_REQUEST.match(line) for line in (call.stdin or "").splitlines())
    if (not quiet and not local) or not asks:
        call.mark("network-out", f"an open connection to {display_text(host)}")
    return ANY_WORD


def socat(call: ProgramCall, entry: ProgramEntry) -> str:
    """socat: a known query to a local socket only reads; anything else may do anything."""
    words = [word for word in call.argv[1:] if not re.fullmatch(r"-[dvtT]\d*|-[tT]", word)]
    ends = [word for word in words if not re.fullmatch(r"-|STDIO|stdio|\d+", word)]
    socket = re.fullmatch(
        r"(?:(?i:unix(?:-connect|-client)?):)?/(?:var/run|run|var/lib|tmp)/[\w./-]+", ends[-1]
    ) if len(ends) == 1 else None  # fmt: skip
    lines = (call.stdin or "").replace(";", "\n").splitlines()
    if socket and lines and all(_READ_ONLY_REQUEST.match(line.strip()) for line in lines):
        call.mark("network-local", f"asks {display_text(ends[0])}")
        return ANY_WORD
    return apply_table(call, entry) or ANY_WORD


_READ_ONLY_REQUEST = re.compile(
    r"\s*\Z|(?:show|help|stats?|info|INFO|ruok|srvr|mntr|conf|cons|version|ping|PING|QUIT|quit)"
    r"(?:(?! (?:reset|detail|on|off|env|tls-keys)\b) [\w./:#-]+)*\s*\Z"
    r"|(?:GET|HEAD|get) [\w./:?=&%~+,-]+(?: HTTP/1\.[01])?\s*\Z"
    r"|(?:(?:Host|Connection|User-Agent|Accept): |EHLO )[\w.:*/-]+\s*\Z"
)
"""A request of one line that changes nothing in any of the usual services."""
