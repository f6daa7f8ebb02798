"""What a client sends before the server has answered: users, names of databases, addresses.

Something else may listen there. Redis, memcached and mail servers take each line that arrives for
a command, whatever protocol it was written for.
"""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import is_fully_known
from hermes.policy.commands.tables import ParsedArguments, find_program, parse_arguments
from hermes.policy.programs.resource_access import DATABASE_ACCESS, access_of

_OTHER_CLIENTS = word_set(
    "ldapsearch ldapwhoami smbclient rpcclient zabbix_get kafka-topics kafka-topics.sh"
    " kafka-consumer-groups kafka-consumer-groups.sh kafka-configs kafka-configs.sh kafka-acls"
    " kafka-acls.sh kafka-log-dirs kafka-log-dirs.sh kafka-broker-api-versions"
    " kafka-broker-api-versions.sh kafka-get-offsets kafka-get-offsets.sh kafka-console-consumer"
    " kafka-console-consumer.sh"
)
"""Clients without HTTP, which would encode a line break."""
_LINE_BREAK = re.compile(r"[\r\n]|\\[nrx0-7uU]|://.*%0[ad]", re.IGNORECASE | re.DOTALL)
"""Also as a program would print it or decode it."""
_LINE_COMMANDS_PORT = re.compile(r"(?:25|110|143|465|587|2003|6667|8125|9100|11211)\Z")
"""Ports of servers that take each line for a command or a value."""
_LINE_COMMAND = re.compile(r"\s|flush_all\Z", re.IGNORECASE)
"""Commands of such servers: several words, or one that needs no other."""
_REDIS_SOCKET = re.compile(r"redis|valkey|keydb", re.IGNORECASE)
_SERVER_OPTIONS = ("-h", "--host", "-p", "-P", "--port")
"""Their values say where the server is, and are not sent."""
_REDIS_CLIENTS = word_set("redis-cli valkey-cli keydb-cli iredis")


def mark_connection_words(call: ProgramCall) -> None:
    """Marks words that may carry commands to a server of another protocol."""
    if not _is_plain_client(call.program):
        return
    entry = find_program(call.program)
    if entry is None:
        return
    found = parse_arguments(call.argv[1:], entry.grammar)
    statements = {"--eval", "-v", "--set", "--variable"}.union(
        *(rule.names for rule in entry.option_rules if rule.does == ("sql",))
    )
    values = (value or "" for option, value in found.options if option not in statements)
    sent = [*found.words, *found.rest, *values]
    if any(map(_LINE_BREAK.search, sent)):
        call.mark("network-out", f"{call.program} sends a word with a line break: more is sent")
    if call.program in _REDIS_CLIENTS:
        _mark_redis_lines(call, found)
        return
    where = found.values(*_SERVER_OPTIONS)
    if not all(is_fully_known(word) for word in sent if word not in where):
        call.mark("network-out", f"{call.program} logs in with what is only known at run time")


def _mark_redis_lines(call: ProgramCall, found: ParsedArguments) -> None:
    """It writes each word of a command on a line of its own, and any server may be there."""
    socket, address = found.value("-s"), found.value("-u") or ""
    port = found.value("-p") or address.rpartition(":")[2].partition("/")[0]
    if (
        any(map(_LINE_COMMAND.search, found.rest[1:]))
        or _LINE_COMMANDS_PORT.match(port)
        or (socket is not None and not _REDIS_SOCKET.search(socket))
    ):
        call.mark("network-out", f"{call.program} may send commands to another kind of server")


def _is_plain_client(program: str) -> bool:
    """Return whether it connects to a server of its own protocol, without HTTP."""
    return access_of(program).peer == DATABASE_ACCESS.peer or program in _OTHER_CLIENTS
