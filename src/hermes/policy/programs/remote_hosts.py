"""Programs that run commands on other hosts: ssh and ansible."""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    UNKNOWN_TEXT,
    display_text,
    has_untrusted_text,
)
from hermes.policy.commands.tables import ParsedArguments, ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table


def ssh(call: ProgramCall, entry: ProgramEntry) -> str:
    """`ssh host command`: a shell on another host."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    for option in found.values("-o"):
        if _SSH_COMMAND_SETTING.match(option):
            call.dynamic(f"ssh -o {display_text(option)} runs a local command")
            call.shell(option.partition("=")[2] or option.partition(" ")[2])
        elif not _SSH_HARMLESS_SETTING.match(option):
            call.dynamic(f"ssh -o {display_text(option)} is not known to be harmless")
    for log in found.values("-E"):
        call.writes(log)
    _mark_sent_options(call, found)
    if found.has("-F", "-L", "-R", "-D", "-w", "-S", "-I", "-A", "-W", "-X", "-Y"):
        call.mark("network-out", "ssh with a tunnel, an agent or a configuration of its own")
    if (order := found.value("-O")) is not None and order != "check":
        call.mark("service-change", f"ssh -O {display_text(order)} changes a shared connection")
    if found.has("-V", "-Q"):
        call.mark("read", "ssh tells about itself")
        return ANY_WORD
    host = found.words[0] if found.words else ANY_WORD
    call.set_target(host=host.rpartition("@")[2])
    call.mark(
        "network-out" if has_untrusted_text(host) or _has_unknown_user(host) else "network-read",
        f"connects to {display_text(host)}",
    )
    return _judge_remote_command(call, found.rest, idle=found.has("-N", "-f", "-O", "-G"))


def _has_unknown_user(host: str) -> bool:
    """The name of the user reaches the host."""
    return "@" in host and UNKNOWN_TEXT.search(host.rpartition("@")[0]) is not None


def _mark_sent_options(call: ProgramCall, found: ParsedArguments) -> None:
    """The user, the names of hosts and the like reach the other host, or a name server."""
    for option, value in found.options:
        if value and option not in ("-i", "-E") and has_untrusted_text(value):
            shown = f"{call.program} {display_text(option)}"
            call.mark("network-out", f"{shown} sends what is only known at run time")


def sshpass(call: ProgramCall, entry: ProgramEntry) -> str:
    """`sshpass -p password ssh host`: the password reaches the host."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    _mark_sent_options(call, found)
    for file in found.values("-f"):
        call.reads(file)
        call.mark("network-out", f"sends the first line of {display_text(file)}")
    call.mark("read", "sshpass types a password")
    return call.run(found.rest)


_SSH_COMMAND_SETTING = re.compile(
    r"(?i)\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand|RemoteCommand|Include|Match"
    r"|PKCS11Provider|SecurityKeyProvider|XAuthLocation)"
)
_SSH_HARMLESS_SETTING = re.compile(
    r"(?i)\s*(?:ConnectTimeout|ConnectionAttempts|BatchMode|StrictHostKeyChecking|LogLevel|Port|User"
    r"|UserKnownHostsFile|GlobalKnownHostsFile|ServerAlive(?:Interval|CountMax)|HashKnownHosts"
    r"|(?:Password|Pubkey|KbdInteractive|ChallengeResponse|GSSAPI|Hostbased)Authentication"
    r"|PreferredAuthentications|IdentitiesOnly|IdentityFile|CertificateFile|HostName|HostKeyAlias"
    r"|HostKeyAlgorithms|PubkeyAccepted\w+|KexAlgorithms|Ciphers|MACs|Compression|CheckHostIP"
    r"|NumberOfPasswordPrompts|TCPKeepAlive|AddressFamily|RequestTTY|VisualHostKey|EscapeChar"
    r"|UpdateHostKeys|IPQoS|RekeyLimit|ProxyJump|VerifyHostKeyDNS|ExitOnForwardFailure"
    r"|Control(?:Master|Path|Persist)[ =](?:no|none)|ForwardAgent[ =]no|ForwardX11[ =]no"
    r"|ClearAllForwardings|AddKeysToAgent[ =]no|CanonicalizeHostname[ =]no)(?:[ =]|\Z)"
)


def _judge_remote_command(call: ProgramCall, words: list[str], *, idle: bool) -> str:
    if call.stdin is not None:
        call.mark("network-out", "what is piped in goes to another machine")
    scope = call.scope.for_other_machine()
    if words:
        return call.shell(" ".join(words), scope=scope)
    if call.stdin is not None:
        call.dynamic("the remote shell runs what is piped in")
        return call.shell(call.stdin, scope=scope, stdin="")
    if not idle:
        call.dynamic("opens a shell on another machine")
    return ANY_WORD


_ANSIBLE_READ_MODULES = word_set(
    "ping setup gather_facts stat service_facts package_facts win_ping wait_for"
)
_ANSIBLE_COMMAND_MODULES = word_set("command win_command")


def ansible(call: ProgramCall, entry: ProgramEntry) -> str:
    """`ansible hosts -m module -a arguments`; without a module the arguments are a command."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    module = (found.value("-m", "--module-name") or "command").rpartition(".")[2]
    text = found.value("-a", "--args") or ""
    if (
        has_untrusted_text(module + text)
        or module not in _ANSIBLE_READ_MODULES | _ANSIBLE_COMMAND_MODULES
        or found.loose
    ):
        return apply_table(call, entry) or ANY_WORD
    if "{{" in text or "{%" in text:
        call.dynamic("ansible runs the templates in its arguments on this machine")
    if not found.names() <= _ANSIBLE_HARMLESS_OPTIONS:
        return apply_table(call, entry) or ANY_WORD
    host = found.words[0] if found.words else ANY_WORD
    call.set_target(host=host)
    call.mark("network-read", f"connects to {display_text(host)}")
    if found.has("-b", "--become"):
        call.borrowed = "ansible becomes another user"
    if module in _ANSIBLE_COMMAND_MODULES:
        return call.shell(text, scope=call.scope.for_other_machine())
    call.mark("read", f"ansible {module} looks")
    if module in ("setup", "gather_facts") and not _ANSIBLE_FACT_FILTER.fullmatch(text):
        call.mark("secret-read", f"ansible {module} prints the variables of the host")
    return ANY_WORD


_ANSIBLE_FACT_FILTER = re.compile(r"filter=ansible_(?!env|en?\*)[a-z]\w*\*?")
"""Facts by name, without the environment variables."""
_ANSIBLE_HARMLESS_OPTIONS = word_set(
    "-m --module-name -a --args -b --become -f --forks -l --limit -o --one-line -t -v -vv -u --user"
    " -T --timeout --become-user"
)
