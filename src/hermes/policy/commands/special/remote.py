"""Commands for other machines, over ssh or by ansible: they may well be harmless ones."""

import re

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, foreign, shown
from hermes.policy.commands.options import split
from hermes.policy.commands.tables import Program
from hermes.policy.commands.values import word_set

_LOOKING = word_set(
    "ping setup gather_facts stat service_facts package_facts getent debug win_ping slurp find"
    " wait_for assert"
)
_RUNNING = word_set("command win_command")


def ad_hoc(call: Call, entry: Program) -> str:
    """`ansible hosts -m module -a arguments`; without a module the arguments are a command."""
    found = split(call.argv[1:], entry.grammar)
    module = (found.value("-m", "--module-name") or "command").rpartition(".")[2]
    text = found.value("-a", "--args") or ""
    if foreign(module + text) or module not in _LOOKING | _RUNNING or found.loose:
        return by_table(call, entry) or ANY
    if not found.names() <= _QUIET:
        return by_table(call, entry) or ANY
    host = found.words[0] if found.words else ANY
    call.aim(host=host)
    call.mark("network-read", f"connects to {shown(host)}")
    if found.has("-b", "--become"):
        call.borrowed = "ansible becomes another user"
    if module in _RUNNING:
        return call.shell(text, scope=call.scope.elsewhere())
    call.mark("read", f"ansible {module} looks")
    return ANY


_QUIET = word_set(
    "-m --module-name -a --args -b --become -f --forks -l --limit -o --one-line -t -v -vv -u --user"
    " -T --timeout --become-user"
)


def over_ssh(call: Call, entry: Program) -> str:
    """`ssh host command`: a shell elsewhere."""
    found = split(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    for option in found.values("-o"):
        if re.match(
            r"(?i)\s*(?:ProxyCommand|LocalCommand|KnownHostsCommand|Include|Match)", option
        ):
            call.dynamic(f"ssh -o {shown(option)} runs a local command")
            call.shell(option.partition("=")[2] or option.partition(" ")[2])
    for log in found.values("-E"):
        call.writes(log)
    if found.has("-F", "-L", "-R", "-D", "-w", "-S", "-I", "-A", "-W") or foreign(
        found.value("-J") or ""
    ):
        call.mark("network-out", "ssh with a tunnel, an agent or a configuration of its own")
    if found.has("-V", "-Q"):
        call.mark("read", "ssh tells about itself")
        return ANY
    host = found.words[0] if found.words else ANY
    call.aim(host=host.rpartition("@")[2])
    call.mark("network-out" if foreign(host) else "network-read", f"connects to {shown(host)}")
    return _over_there(call, found.rest, idle=found.has("-N", "-f", "-O", "-G"))


def _over_there(call: Call, words: list[str], *, idle: bool) -> str:
    if call.stdin is not None:
        call.mark("network-out", "what is piped in goes to another machine")
    scope = call.scope.elsewhere()
    if words:
        return call.shell(" ".join(words), scope=scope)
    if call.stdin is not None:
        call.dynamic("the remote shell runs what is piped in")
        return call.shell(call.stdin, scope=scope, stdin="")
    if not idle:
        call.dynamic("opens a shell on another machine")
    return ANY
