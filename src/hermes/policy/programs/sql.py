"""Finds the effects of SQL statements from their verbs, conditions and functions."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import display_text, has_untrusted_text, literal_text
from hermes.policy.commands.server_settings import is_harmless_setting, sets_only_sizes
from hermes.policy.programs.client_commands import (
    BRACKET_CLIENTS,
    MYSQL_CLIENTS,
    PSQL_CLIENTS,
    UNSEPARATED_CLIENTS,
    assigned_variable,
    client_variables,
    ends_statement,
    mark_client_command,
    mark_command_lines,
    separates_statements,
)
from hermes.policy.programs.sql_functions import find_attribute_effect, find_function_effect

_STANDARD_TOKENS = r"""
    (?P<blank>\s+|--[^\n\r]*)
  | (?P<hidden>[uU]&["'])
  | (?P<string>[eE]'(?:[^'\\]|\'\'|\\.)*'|[nNbBxX]?'(?:[^']|\'\')*'
      |\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$)
  | (?P<name>"(?:[^"]|"")*")
"""
_MYSQL_TOKENS = r"""
    (?P<blank>\s+|--(?=\s)[^\n]*|\#[^\n]*)
  | (?P<string>[nNbBxX]?'(?:[^'\\]|\'\'|\\.)*'|"(?:[^"\\]|""|\\.)*")
  | (?P<name>`[^`]*`)
"""
_BRACKET_TOKENS = r"""
    (?P<blank>\s+|--[^\n]*)
  | (?P<string>[nNbBxX]?'(?:[^']|\'\')*')
  | (?P<name>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])
"""
_COMMON_TOKENS = r"""
  | (?P<comment>/\*(?!M?!)(?:(?!/\*).)*?\*/)
  | (?P<hidden_comment>/\*)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
  | (?P<end>;)
  | (?P<meta>\\[^\s\\]*)
  | (?P<other><=|>=|<>|!=|\|\||::|@@|.)
"""
_STANDARD_SQL, _MYSQL, _BRACKET_SQL = (
    re.compile(own + _COMMON_TOKENS, re.X | re.S | re.A)
    for own in (_STANDARD_TOKENS, _MYSQL_TOKENS, _BRACKET_TOKENS)
)
_DIALECT_DEPENDENT = re.compile(r"[\\#\"$`]|--")
"""Characters that servers read differently: text with one of them is read both ways."""
_VARIABLE = re.compile(
    r""":(?:(?P<plain>[A-Za-z_]\w*)|'(?P<string>\w+)'|"(?P<name>\w+)"|\{\?\w+\})"""
)
_MAX_REPLACED_VARIABLES = 50


class SqlToken(NamedTuple):
    kind: str
    text: str

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def identifier(self) -> str:
        """The name of a table or function, without its quotes."""
        return self.text.strip('"`[]').lower() if self.kind in ("word", "name") else ""


_STATEMENT_END = SqlToken("end", ";")


def _tokenize(call: ProgramCall, text: str, reading: re.Pattern[str]) -> Iterator[SqlToken]:
    """All tokens except blanks and comments; `hidden` is what a server or client may run.

    A backslash command is one token with the rest of its line."""
    variables = client_variables(call)
    at = replaced = 0
    while found := reading.match(text, at):
        kind = found.lastgroup or "other"
        if variables is not None and (variable := _VARIABLE.match(text, at)):
            replaced += 1
            value = variables.get(variable[variable.lastgroup or 0])
            if value is None or replaced > _MAX_REPLACED_VARIABLES:
                yield SqlToken("hidden", variable.group())
            elif variable["plain"]:
                text, at = value + text[variable.end() :], 0
                continue
            else:
                quote = "'" if variable["string"] else '"'
                yield SqlToken(variable.lastgroup or "", f"{quote}{value}{quote}")
            at = variable.end()
            continue
        at = found.end()
        if kind == "meta" and not separates_statements(call, found.group()):
            line_end = text.find("\n", at) % (len(text) + 1)
            command, at = text[found.start() : line_end], line_end
            if variables is not None and (assigned := assigned_variable(command)):
                variables[assigned[0]] = assigned[1]
            yield SqlToken("meta", command)
        elif kind not in ("blank", "comment"):
            yield SqlToken(_TOKEN_KINDS.get(kind, kind), found.group())


_TOKEN_KINDS = {"tag": "string", "hidden_comment": "hidden", "meta": "end"}


def _split_statements(call: ProgramCall, text: str) -> list[list[SqlToken]]:
    """The tokens of each statement, without semicolons, in every dialect."""
    readings = [_STANDARD_SQL, _MYSQL] if _DIALECT_DEPENDENT.search(text) else [_STANDARD_SQL]
    if "[" in text and call.program in BRACKET_CLIENTS:
        readings.append(_BRACKET_SQL)
    found: list[list[SqlToken]] = []
    for reading in readings:
        found.append([])
        for token in _tokenize(call, text, reading):
            if token.kind == "end" or (token.kind == "meta" and ends_statement(call, token.text)):
                found.append([])
            elif token.kind == "meta" and not found[-1]:
                found += [[token], []]
            else:
                found[-1].append(token)
    return [statement for statement in found if statement]


def where_condition(statement: list[SqlToken]) -> list[SqlToken] | None:
    """The outermost WHERE up to the next clause; None when there is none."""
    depth, start = 0, None
    for at, token in enumerate(statement):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif depth == 0 and token.upper == "WHERE":
            start = at + 1
        elif depth == 0 and start is not None and token.upper in _AFTER_WHERE:
            return statement[start:at]
    return None if start is None else statement[start:]


_AFTER_WHERE = word_set("ORDER LIMIT RETURNING GROUP HAVING OFFSET FETCH")
_LOGIC_WORDS = word_set("AND OR NOT TRUE FALSE NULL IS LIKE ILIKE BETWEEN IN XOR DIV")


def selects_rows(condition: list[SqlToken]) -> bool:
    """Return whether a condition restricts the rows: it compares a column, without an OR."""
    arms = _split_or(condition)
    return bool(arms) and all(_compares_column(arm) for arm in arms)


def _split_or(condition: list[SqlToken]) -> list[list[SqlToken]]:
    while len(condition) > 1 and condition[0].text == "(" and _is_parenthesized(condition):
        condition = condition[1:-1]
    arms: list[list[SqlToken]] = [[]]
    depth = 0
    for token in condition:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and (token.upper == "OR" or token.text == "||"):
            arms.append([])
        else:
            arms[-1].append(token)
    return [arm for arm in arms if arm]


def _is_parenthesized(condition: list[SqlToken]) -> bool:
    depth = 0
    for at, token in enumerate(condition):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return at == len(condition) - 1
    return False


def _compares_column(arm: list[SqlToken]) -> bool:
    columns = [
        token.text.lower()
        for token in arm
        if token.kind == "name" or (token.kind == "word" and token.upper not in _LOGIC_WORDS)
    ]
    if not columns:
        return False
    text = " ".join(token.upper for token in arm)
    if text.endswith("IS NOT NULL") or re.search(r"LIKE '%+'$", text):
        return False
    if re.search(r"(?:>=?|<>|!=) (?:0|- 1|-1|'')$", text) and len(arm) <= 4:
        return False
    sides = re.split(r" (?:=|<=|>=) ", text)
    return not (len(sides) == 2 and sides[0] == sides[1])


_READ_VERBS = word_set(
    "SELECT SHOW DESCRIBE DESC EXPLAIN VALUES TABLE HELP USE BEGIN COMMIT ROLLBACK END"
    " SAVEPOINT RELEASE FETCH CLOSE CHECKSUM ABORT DISCARD EXISTS LISTEN UNLISTEN WITH"
)
_WRITE_VERBS = word_set("INSERT REPLACE UPSERT MERGE COMMENT ANALYZE CREATE RENAME ATTACH IMPORT")
_IRREVERSIBLE_VERBS = word_set("DROP TRUNCATE ALTER PURGE DETACH")
_PRIVILEGE_VERBS = word_set("GRANT REVOKE REASSIGN")
_MAINTENANCE_VERBS = word_set(
    "VACUUM REINDEX OPTIMIZE CLUSTER REFRESH FLUSH CHECKPOINT LOCK UNLOCK KILL SYSTEM CHANGE STOP"
    " REPAIR SHUTDOWN RESTART NOTIFY CACHE"
)
_CODE_VERBS = word_set("CALL DO EXEC EXECUTE PREPARE LOAD HANDLER INSTALL DECLARE DELIMITER")
_CHANGE_VERBS = word_set("INSERT UPDATE DELETE MERGE TRUNCATE DROP ALTER CREATE")
_SECRET_TABLES = word_set(
    "pg_shadow pg_authid user_mapping pg_user_mapping pg_user_mappings user_mapping_options"
    " user_privileges pg_largeobject pg_dist_authinfo subconninfo rolpassword authentication_string"
    " global_priv slave_master_info"
)
_MYSQL_DATABASE = re.compile(r"mysql(?![\w-])", re.I)
_TABLE_WORDS = word_set("FROM JOIN STRAIGHT_JOIN TABLE")
_SECRET_SETTINGS = word_set("primary_conninfo ssl_passphrase_command")
_MYSQL_SECRET_TABLES = word_set("user servers")


def mark_sql_effects(call: ProgramCall, text: str) -> None:
    """Marks the effects of every statement in a text."""
    if has_untrusted_text(text):
        call.dynamic("part of the SQL is only known at run time")
    plain = literal_text(text)
    mark_command_lines(call, plain)
    for statement in _split_statements(call, plain):
        if statement[0].kind == "meta":
            mark_client_command(call, statement[0].text)
        else:
            _judge_statement(call, statement)


def is_complete_statement(call: ProgramCall, text: str) -> bool:
    """Return whether the text ends between two statements."""
    last = SqlToken("end", ";")
    for token in _tokenize(call, text, _STANDARD_SQL):
        last = token
    return last.kind == "end"


def _judge_statement(call: ProgramCall, statement: list[SqlToken]) -> None:
    verb = statement[0].upper
    if statement[0].text in ("(", "{") and len(statement) > 1:
        _judge_statement(call, statement[1:])
        return
    if any(token.kind == "hidden" for token in statement):
        call.dynamic("SQL in a comment that the server runs, in escapes or in a variable")
    if any(token.kind == "meta" for token in statement):
        call.dynamic("a backslash command within SQL")
    beginning = display_text(" ".join(token.text for token in statement[:4]))
    work = _VERB_HANDLERS.get(verb)
    if work:
        work(call, statement, beginning)
    else:
        _judge_by_verb(call, verb, statement, beginning)
    _judge_functions(call, statement)
    _judge_select_into(call, statement)
    _judge_secret_tables(call, statement)
    _judge_client_words(call, statement)


def _judge_secret_tables(call: ProgramCall, statement: list[SqlToken]) -> None:
    names = [token.identifier for token in statement]
    qualified = {after for before, _, after in zip(names, statement[1:], names[2:], strict=False)
                 if before == "mysql"}  # fmt: skip
    secret = bool(_SECRET_TABLES.intersection(names)) or bool(_MYSQL_SECRET_TABLES & qualified)
    if call.program in MYSQL_CLIENTS and _MYSQL_DATABASE.search(
        " ".join((*call.argv[1:], call.stdin or ""))
    ):
        begin = next((at for at, each in enumerate(statement) if each.upper in _TABLE_WORDS), 0)
        secret = secret or any(
            before.upper in _TABLE_WORDS or (before.text == "," and at > begin)
            for at, (before, name) in enumerate(pairwise(statement))
            if name.identifier in _MYSQL_SECRET_TABLES
        )
    settings = {token.text.strip("'").lower() for token in statement}
    secret = secret or bool(_SECRET_SETTINGS & settings)
    whole = "pg_subscription" in names and ("*" in {token.text for token in statement})
    shown = names[:3] == ["show", "create", "user"] or names == ["show", "all"]
    if secret or whole or shown:
        call.mark("secret-read", "password hashes of the database")


def _judge_client_words(call: ProgramCall, statement: list[SqlToken]) -> None:
    """Words that some clients and servers obey within a statement."""
    uppers = [token.upper for token in statement]
    if call.program in MYSQL_CLIENTS and ("DELIMITER" in uppers or uppers[0] == "SYSTEM"):
        call.dynamic(f"{uppers[0]} is a command of {call.program}")
    for at, upper in enumerate(uppers[1:], start=1):
        if call.program in UNSEPARATED_CLIENTS and upper in _ACTING_VERBS:
            call.mark("unknown", f"{upper} may begin another statement")
        elif uppers[0] in ("BEGIN", "END") and upper in _ACTING_VERBS:
            _judge_statement(call, statement[at:])
            return


def _judge_by_verb(call: ProgramCall, verb: str, statement: list[SqlToken], beginning: str) -> None:
    for verbs, effects in _EFFECTS_BY_VERBS:
        if verb in verbs:
            call.mark_all(effects, f"SQL: {beginning}")
            return
    call.mark("unknown", f"SQL that is not known: {beginning}")


_EFFECTS_BY_VERBS: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (_READ_VERBS, ("read",)),
    (_WRITE_VERBS, ("write",)),
    (_IRREVERSIBLE_VERBS, ("delete", "irreversible")),
    (_PRIVILEGE_VERBS, ("privilege", "write")),
    (_MAINTENANCE_VERBS, ("service-change",)),
    (_CODE_VERBS, ("exec-dynamic",)),
)


def _judge_select(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """SELECT and WITH: a read, unless they contain a change."""
    uppers = [token.upper for token in statement]
    call.mark("read", f"SQL: {beginning}")
    if "INTO" in uppers:
        call.mark("write", "SELECT … INTO writes its result")
    for at, upper in enumerate(uppers):
        if upper in ("UPDATE", "DELETE") and uppers[at - 1] not in ("FOR", "ON", "KEY"):
            _judge_rows(call, statement[at:], beginning)
        elif upper in ("INSERT", "MERGE") and at + 1 < len(uppers) and uppers[at + 1] == "INTO":
            call.mark("write", f"SQL: {beginning}")


def _judge_explain(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """EXPLAIN ANALYZE runs the statement; without it only its plan is shown."""
    call.mark("read", f"SQL: {beginning}")
    at, depth = 1, 0
    while at < len(statement) and (
        depth or statement[at].text in ("(", "=") or statement[at].upper in _EXPLAIN_WORDS
    ):
        depth += {"(": 1, ")": -1}.get(statement[at].text, 0)
        at += 1
    options = {token.upper for token in statement[1:at]}
    if options & {"ANALYZE", "ANALYSE"} and statement[at:]:
        _judge_statement(call, statement[at:])


_EXPLAIN_WORDS = word_set(
    "ANALYZE ANALYSE VERBOSE FORMAT TEXT XML JSON YAML TREE TRADITIONAL EXTENDED PARTITIONS DISTSQL"
)


def _judge_rows(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """UPDATE and DELETE: the condition decides."""
    verb = statement[0].upper
    call.mark("delete" if verb == "DELETE" else "write", f"SQL: {beginning}")
    where = where_condition(statement)
    if where is None or not selects_rows(where):
        call.irreversible(f"{verb} of every row: no condition that picks any")


def _judge_copy(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    uppers = [token.upper for token in statement]
    if len(uppers) > 1 and uppers[1] == "(":
        _judge_statement(call, statement[2:])
    ends = [at for at, upper in enumerate(uppers) if upper in ("TO", "FROM")]
    target = uppers[ends[-1] : ends[-1] + 2] if ends else []
    if "PROGRAM" in uppers:
        call.dynamic("COPY … PROGRAM runs a command on the server")
    elif target == ["TO", "STDOUT"]:
        call.mark("read", f"SQL: {beginning}")
    else:
        call.mark("write", f"SQL: {beginning}")
    if "FROM" in uppers and "'" in "".join(uppers):
        call.mark("secret-read", "COPY … FROM reads a file of the server")


def _judge_set(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    uppers = {token.upper for token in statement}
    if uppers & {"GLOBAL", "PERSIST", "PASSWORD", "ROLE", "AUTHORIZATION", "PERSIST_ONLY"} or any(
        token.text.startswith("@@") for token in statement
    ):
        more = () if sets_only_sizes([one.text for one in statement]) else ("privilege",)
        call.mark_all(("service-change", *more), f"SQL: {beginning}")
    elif "STATEMENT" in uppers or (call.program in PSQL_CLIENTS and not _sets_harmless(statement)):
        call.dynamic(f"SQL: {beginning} sets what may decide which code the server runs")
    else:
        call.mark("read", f"SQL: {beginning}")


def _sets_harmless(statement: list[SqlToken]) -> bool:
    names = [token.identifier for token in statement[1:]]
    names = names[1:] if names[:1] in (["session"], ["local"]) else names
    if names[:1] and names[0] in ("transaction", "characteristics", "time", "constraints"):
        return "write" not in names
    return bool(names) and is_harmless_setting(names[0], statement[-1].text)


def _judge_start_or_reset(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """START and RESET: harmless for a transaction or a setting, but not for a server."""
    uppers = {token.upper for token in statement[1:]}
    if "WRITE" in uppers:
        call.mark("write", f"SQL: {beginning}")
    if uppers & {"MASTER", "BINARY", "SLAVE", "REPLICA", "PERSIST", "GROUP_REPLICATION"}:
        call.mark("service-change", f"SQL: {beginning}")
        if statement[0].upper == "RESET":
            call.irreversible(f"SQL: {beginning}")
    else:
        call.mark("service-change" if "CACHE" in uppers else "read", f"SQL: {beginning}")


def _judge_transaction_start(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """`BEGIN READ WRITE` leaves the read-only session of a reading command."""
    writes = any(token.upper == "WRITE" for token in statement)
    call.mark("write" if writes else "read", f"SQL: {beginning}")


def _judge_transaction_end(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """COMMIT and ROLLBACK of a prepared transaction affect another session."""
    prepared = any(token.upper == "PREPARED" for token in statement)
    call.mark("write" if prepared else "read", f"SQL: {beginning}")


def _judge_pragma(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    """`pragma name = value` and `pragma name(value)` set, unless the value says what to show."""
    names = {token.identifier for token in statement}
    sets = any(token.text in ("=", "(") for token in statement) and not names & _READ_PRAGMAS
    call.mark("write" if sets else "read", f"SQL: {beginning}")


_READ_PRAGMAS = word_set(
    "table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list"
    " foreign_key_check integrity_check quick_check"
)


def _judge_create(call: ProgramCall, statement: list[SqlToken], beginning: str) -> None:
    uppers = {token.upper for token in statement}
    call.mark("write", f"SQL: {beginning}")
    if uppers & {"USER", "ROLE"}:
        call.mark("privilege", f"SQL: {beginning}")
    if uppers & {"FUNCTION", "PROCEDURE", "LANGUAGE", "EXTENSION", "TRIGGER", "EVENT", "LIBRARY"}:
        call.dynamic(f"SQL keeps code on the server: {beginning}")


_StatementHandler = Callable[[ProgramCall, list[SqlToken], str], None]
_VERB_HANDLERS: dict[str, _StatementHandler] = {
    "SELECT": _judge_select, "WITH": _judge_select, "VALUES": _judge_select,
    "TABLE": _judge_select,
    "EXPLAIN": _judge_explain, "DESCRIBE": _judge_explain, "DESC": _judge_explain,
    "UPDATE": _judge_rows, "DELETE": _judge_rows,
    "COPY": _judge_copy, "SET": _judge_set, "PRAGMA": _judge_pragma, "CREATE": _judge_create,
    "START": _judge_start_or_reset, "RESET": _judge_start_or_reset,
    "BEGIN": _judge_transaction_start,
    "COMMIT": _judge_transaction_end, "ROLLBACK": _judge_transaction_end,
}  # fmt: skip


_CALLING_VERBS = word_set("SELECT WITH VALUES EXPLAIN SHOW TABLE SET DESCRIBE DESC")
_ACTING_VERBS = (
    _CHANGE_VERBS | _WRITE_VERBS | _IRREVERSIBLE_VERBS | _PRIVILEGE_VERBS | _CODE_VERBS
) - {"REPLACE", "COMMENT", "IMPORT", "CACHE"}


_TABLE_PLACES = _TABLE_WORDS | word_set(", INTO UPDATE ONLY INSERT DESCRIBE EXPLAIN")


def _judge_attribute(call: ProgramCall, statement: list[SqlToken], at: int) -> None:
    """`(x).pg_read_file` and `t.pg_read_file` call the function, as `pg_read_file(x)` does."""
    if call.program not in PSQL_CLIENTS or at < 2 or statement[at - 1].text != ".":
        return
    name, before = statement[at].identifier, statement[at - 2]
    effect = find_attribute_effect(name)
    names_table = at > 2 and statement[at - 3].upper in _TABLE_PLACES and before.text != ")"
    if effect and not (effect == "unknown" and names_table):
        call.mark(effect, f"SQL function {name}, called like a column")


def _judge_functions(call: ProgramCall, statement: list[SqlToken]) -> None:
    """Functions may do anything, except those that are known to only compute."""
    reading = statement[0].upper in _CALLING_VERBS
    for at, (token, following) in enumerate(pairwise((*statement, _STATEMENT_END))):
        if token.kind not in ("word", "name"):
            continue
        if following.text != "(":
            if (token.upper, following.upper) == ("NEXT", "VALUE"):
                call.mark("write", "SQL: the next value of a sequence is taken")
            _judge_attribute(call, statement, at)
            continue
        if at and statement[at - 1].upper in ("AS", ")"):
            continue  # the name of a table or column, or a type
        qualified = at > 1 and statement[at - 1].text == "."
        schema = statement[at - 2].identifier if qualified else ""
        effect = find_function_effect(token.identifier, schema)
        if effect and (effect != "unknown" or reading):
            call.mark(effect, f"SQL function {token.identifier}")


def _judge_select_into(call: ProgramCall, statement: list[SqlToken]) -> None:
    """MySQL writes files with SELECT … INTO OUTFILE."""
    uppers = {token.upper for token in statement}
    if uppers & {"OUTFILE", "DUMPFILE"}:
        call.mark("write", "writes a file on the server")
