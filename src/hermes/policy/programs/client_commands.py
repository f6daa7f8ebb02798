"""Commands and variables of database clients that stand among the SQL: `\\dt`, `\\g`, `:name`."""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import has_untrusted_text, literal_text
from hermes.policy.commands.tables import find_program, parse_arguments

PSQL_CLIENTS = word_set("psql pgcli ysqlsh ysql usql vsql nzsql cockroach mclient")
MYSQL_CLIENTS = word_set("mysql mariadb mycli mysqlsh")
SQLITE_CLIENTS = word_set("sqlite3 sqlite sqlcipher litecli duckdb")
UNSEPARATED_CLIENTS = word_set("sqlcmd tsql osql isql usql")
"""Clients of servers for which a statement ends where the next verb begins."""
BRACKET_CLIENTS = SQLITE_CLIENTS | UNSEPARATED_CLIENTS
"""Clients of servers that know names in brackets."""

_PSQL_READS = re.compile(
    r"\\(?:d[A-Za-z]*(?:\+?S?|S?\+?)|l\+?|list\+?|z[S+]*|lo_list\+?|conninfo|x|timing|pset|q|quit"
    r"|a|t|f|C|T|H|html|\?|h|help|encoding|errverbose|echo|qecho|warn|sf\+?|sv\+?|if|elif|else"
    r"|endif|p|print|r|reset|unset|copyright)\Z"
)
_MYSQL_READS = re.compile(r"\\(?:[sqhWwpc?])\Z")
_PLAIN_ARGUMENTS = re.compile(r"[^\\`|]*\Z|[\w\s]*'(?:[^'\\`]|\\[tnr0])*'\s*\Z")
"""No further command on the line, no program, no pipe."""
_DATABASE_NAME = re.compile(r"\s+[\w-]+\s*\Z|\s*\Z")
_SETTING = re.compile(r"\\set\s+(\w+)(?:\s+(?:([\w.%-]+)|'([^'\\`:]*)'))?\s*\Z")
_STATEMENT_END = re.compile(
    r"\\(?:gx?(?:\s*\([\w\s=,'|;-]*\))?|gdesc|crosstabview[\w\s]*|watch(?:\s+[\w.= ]*)?)\s*\Z"
)
_CLIENT_COMMAND_LINE = re.compile(r"(?m)^[ \t]*[!:.@]")


def ends_statement(call: ProgramCall, command: str) -> bool:
    """Return whether a backslash command runs the statement before it and does no more."""
    return call.program in PSQL_CLIENTS and _STATEMENT_END.match(command) is not None


def separates_statements(call: ProgramCall, name: str) -> bool:
    """`\\G` and `\\g`, after which more may follow on the same line."""
    return name in ("\\G", "\\g") and call.program not in PSQL_CLIENTS


def mark_client_command(call: ProgramCall, command: str) -> None:
    """Marks the effects of a backslash command with all that follows on its line."""
    verb = re.split(r"[\s]", command, maxsplit=1)[0]
    arguments = command[len(verb) :]
    if call.program in PSQL_CLIENTS:
        if _is_psql_read(verb, arguments) or _SETTING.match(command):
            call.mark("read", f"{verb} looks")
            if verb.startswith("\\deu") and "+" in verb:
                call.mark("secret-read", f"{verb} shows passwords of foreign servers")
            return
        if verb.lower() == "\\copy" and not re.search(r"(?i)program|\\.*\\|`", command):
            call.mark("write", "\\copy moves rows between a file and the server")
            return
    elif call.program in MYSQL_CLIENTS and _MYSQL_READS.match(verb) and not arguments.strip(" ;"):
        call.mark("read", f"{verb} looks")
        return
    call.dynamic(f"{verb} leaves SQL")


def _is_psql_read(verb: str, arguments: str) -> bool:
    if verb in ("\\c", "\\connect"):
        return _DATABASE_NAME.match(arguments) is not None
    return bool(_PSQL_READS.match(verb) and _PLAIN_ARGUMENTS.match(arguments))


def mark_command_lines(call: ProgramCall, text: str) -> None:
    """Lines that other clients do not take for SQL, even within a statement."""
    known = PSQL_CLIENTS | MYSQL_CLIENTS | SQLITE_CLIENTS
    if call.program not in known and _CLIENT_COMMAND_LINE.search(text):
        call.dynamic(f"a line with a command of {call.program}")


def client_variables(call: ProgramCall) -> dict[str, str] | None:
    """Variables that psql replaces in SQL, with known values; None if the client has none."""
    entry = find_program(call.program)
    if call.program not in PSQL_CLIENTS or entry is None:
        return None
    found = parse_arguments(call.argv[1:], entry.grammar)
    given = (each.partition("=") for each in found.values("-v", "--set", "--variable"))
    return {name: literal_text(value) for name, _, value in given if not has_untrusted_text(value)}


def assigned_variable(command: str) -> tuple[str, str] | None:
    """Name and value that a plain `\\set` command assigns."""
    found = _SETTING.match(command)
    return (found[1], found[2] or found[3] or "") if found else None
