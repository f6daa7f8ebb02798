"""What SQL would do: reading, changing some rows, changing all of them, or worse."""

import re
from collections.abc import Callable
from itertools import pairwise

from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import foreign, literal, shown
from hermes.policy.commands.sql_tokens import Token, chooses, condition, statements
from hermes.policy.commands.values import word_set

_READS = word_set(
    "SELECT SHOW DESCRIBE DESC EXPLAIN VALUES TABLE HELP USE BEGIN COMMIT ROLLBACK END"
    " SAVEPOINT RELEASE FETCH CLOSE CHECKSUM ABORT DISCARD EXISTS LISTEN UNLISTEN WITH"
)
_WRITES = word_set("INSERT REPLACE UPSERT MERGE COMMENT ANALYZE CREATE RENAME ATTACH IMPORT")
_FINAL = word_set("DROP TRUNCATE ALTER PURGE DETACH")
_RIGHTS = word_set("GRANT REVOKE REASSIGN")
_UPKEEP = word_set(
    "VACUUM REINDEX OPTIMIZE CLUSTER REFRESH FLUSH CHECKPOINT LOCK UNLOCK KILL SYSTEM CHANGE STOP"
    " REPAIR SHUTDOWN RESTART NOTIFY CACHE"
)
_CODE = word_set("CALL DO EXEC EXECUTE PREPARE LOAD HANDLER INSTALL DECLARE DELIMITER")
_CHANGES = word_set("INSERT UPDATE DELETE MERGE TRUNCATE DROP ALTER CREATE")
_HARMLESS = re.compile(
    r"(?:explain|analyze|count|sum|avg|min|max|now|coalesce|nullif|greatest|least|round|floor|ceil"
    r"|ceiling|abs|sign|mod|div|ln|exp|power|sqrt|trunc|truncate|length|char_length|octet_length"
    r"|lower|upper|initcap|trim|ltrim|rtrim|btrim|lpad|rpad|substr|substring|left|right|replace"
    r"|translate|reverse|repeat|concat|concat_ws|position|strpos|instr|locate|split_part|ascii|chr"
    r"|starts_with|regexp_\w+|string_to_array|to_char|to_date|to_number|to_hex|encode|decode"
    r"|\w*timestamp\w*|date_\w+|date|datetime|time\w*|strftime|julianday|\w*diff|curdate|curtime"
    r"|extract|age|interval|make_\w+|justify_\w+|cast|convert|if|ifnull|isnull|iif|case|when|then"
    r"|else|in|exists|any|all|some|distinct|values|over|partition|filter|within|lateral|grouping"
    r"|rollup|cube|row|row_number|rank|dense_rank|percent_rank|cume_dist|lag|lead|first_value"
    r"|last_value|nth_value|ntile|percentile_\w+|mode|string_agg|group_concat|array|array_\w+"
    r"|unnest|cardinality|json_?\w*|jsonb_\w+|row_to_json|to_jsonb?|generate_series|pg_size_pretty"
    r"|pg_\w*_size|pg_stat_\w+(?<!reset)|pg_is_\w+|pg_last_\w+|pg_current_\w+|pg_wal_lsn_diff"
    r"|pg_walfile_name\w*|pg_get_\w+|pg_blocking_pids|pg_postmaster_start_time|pg_backend_pid"
    r"|pg_typeof|pg_sleep|pg_locks|pg_lock_status|pg_has_role|pg_conf_load_time|pg_tablespace_\w+"
    r"|pg_table_is_visible|pg_encoding_to_char|pg_control_\w+|pg_show_\w+|has_\w+_privilege"
    r"|obj_description|col_description|format_type|regclass|current_\w+|session_user|user|version"
    r"|database|schema|inet_\w+|host|network|txid_current\w*|format|quote_ident|quote_literal"
    r"|md5|sha1|sha2|sha256|hex|unhex|bin|conv|crc32|random|rand|stddev\w*|variance|var_\w+|corr"
    r"|bit_and|bit_or|bool_and|bool_or|every|width_bucket|histogram|uniq\w*|quantile\w*|topk\w*"
    r"|to(?:Date|DateTime|StartOf|Hour|Minute|Unix|String|Int|UInt|Float)\w*|formatReadable\w+"
    r"|\w+If|today|yesterday|from|as|and|or|not|on|where|using|having|by|select|union|join|into|with"
    r"|char|varchar|numeric|decimal|int|text|bigint|sqlite_version|changes|total|typeof|like|glob"
    r"|between|found_rows|connection_id|hostname|last_insert_id|row_count|uuid|field|elt|arrayJoin"
    r"|bar|any_value|argM(?:ax|in)|groupArray|hour|minute|second|day|month|year|week|quarter)\Z",
    re.I,
)
_REACHES = {
    "pg_terminate_backend": "service-change", "pg_cancel_backend": "service-change",
    "pg_reload_conf": "service-change", "pg_promote": "service-change",
    "pg_switch_wal": "service-change", "set_config": "service-change",
    "pg_rotate_logfile": "service-change", "pg_read_file": "secret-read",
    "pg_read_binary_file": "secret-read", "pg_ls_dir": "secret-read", "load_file": "secret-read",
    "lo_import": "secret-read", "lo_export": "write", "lo_unlink": "delete",
    "lo_from_bytea": "write", "pg_file_write": "write", "setval": "write", "nextval": "write",
    "load_extension": "exec-dynamic", "sys_exec": "exec-dynamic", "sys_eval": "exec-dynamic",
    "xp_cmdshell": "exec-dynamic", "readfile": "secret-read", "writefile": "write",
    "edit": "exec-dynamic", "dblink": "network-out", "dblink_exec": "network-out",
    "query_to_xml": "exec-dynamic", "url": "network-out", "remote": "network-out",
    "executable": "exec-dynamic", "file": "secret-read", "s3": "network-out",
    "pg_drop_replication_slot": "irreversible", "pg_stat_reset": "write",
    "pg_stat_statements_reset": "write", "read_csv": "read", "read_parquet": "read",
}  # fmt: skip
_SECRET_TABLES = word_set("pg_shadow pg_authid user_mapping pg_user_mapping user_privileges")


def judge_sql(call: Call, text: str) -> None:
    """Mark the effects of every statement in a text."""
    if foreign(text):
        call.dynamic("part of the SQL is only known at run time")
    for statement in statements(literal(text)):
        _judge(call, statement)


def _judge(call: Call, statement: list[Token]) -> None:
    verb = statement[0].upper
    if statement[0].text in ("(", "{") and len(statement) > 1:
        _judge(call, statement[1:])
        return
    if any(token.kind == "hidden" for token in statement):
        call.dynamic("SQL inside a comment that the server runs")
    if statement[0].kind == "meta":
        _meta(call, statement)
        return
    if any(token.kind == "meta" and token.text not in ("\\G", "\\g") for token in statement) or any(
        token.kind == "meta" for token in statement[:-1]
    ):
        call.dynamic("a backslash command within SQL")
    said = shown(" ".join(token.text for token in statement[:4]))
    work = _VERBS.get(verb)
    if work:
        work(call, statement, said)
    else:
        _by_set(call, verb, statement, said)
    _functions(call, statement)
    _gathering(call, statement)


def _by_set(call: Call, verb: str, statement: list[Token], said: str) -> None:
    for verbs, effects in _SETS:
        if verb in verbs:
            call.marks(effects, f"SQL: {said}")
            return
    call.mark("unknown", f"SQL that is not known: {said}")


_SETS: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (_READS, ("read",)),
    (_WRITES, ("write",)),
    (_FINAL, ("delete", "irreversible")),
    (_RIGHTS, ("privilege", "write")),
    (_UPKEEP, ("service-change",)),
    (_CODE, ("exec-dynamic",)),
)


def _looks(call: Call, statement: list[Token], said: str) -> None:
    """SELECT and WITH: reading, unless a change hides in them."""
    uppers = [token.upper for token in statement]
    call.mark("read", f"SQL: {said}")
    if "INTO" in uppers and not _CHANGES & set(uppers):
        call.mark("write", "SELECT … INTO writes its result")
    for at, upper in enumerate(uppers):
        if upper in ("UPDATE", "DELETE") and uppers[at - 1] not in ("FOR", "ON", "KEY"):
            _rows(call, statement[at:], said)
        elif upper in ("INSERT", "MERGE") and at + 1 < len(uppers) and uppers[at + 1] == "INTO":
            call.mark("write", f"SQL: {said}")
    if _SECRET_TABLES & {token.text.lower().strip('"`') for token in statement}:
        call.mark("secret-read", "password hashes of the database")
    text = " ".join(token.text for token in statement).lower()
    if "mysql . user" in text or "authentication_string" in text:
        call.mark("secret-read", "password hashes of the database")


def _explained(call: Call, statement: list[Token], said: str) -> None:
    uppers = {token.upper for token in statement}
    call.mark("read", f"SQL: {said}")
    if uppers & {"ANALYZE", "ANALYSE"} and uppers & _CHANGES:
        for at, token in enumerate(statement):
            if token.upper in _CHANGES:
                _judge(call, statement[at:])
                return


def _rows(call: Call, statement: list[Token], said: str) -> None:
    """UPDATE and DELETE: the condition decides."""
    verb = statement[0].upper
    call.mark("delete" if verb == "DELETE" else "write", f"SQL: {said}")
    where = condition(statement)
    if where is None or not chooses(where):
        call.irreversible(f"{verb} of every row: no condition that picks any")


def _copied(call: Call, statement: list[Token], said: str) -> None:
    uppers = [token.upper for token in statement]
    if "PROGRAM" in uppers:
        call.dynamic("COPY … PROGRAM runs a command on the server")
    elif "STDOUT" in uppers:
        call.mark("read", f"SQL: {said}")
    else:
        call.mark("write", f"SQL: {said}")
    if "FROM" in uppers and "'" in "".join(uppers):
        call.mark("secret-read", "COPY … FROM reads a file of the server")


def _setting(call: Call, statement: list[Token], said: str) -> None:
    uppers = {token.upper for token in statement}
    if uppers & {"GLOBAL", "PERSIST", "PASSWORD", "ROLE", "AUTHORIZATION", "PERSIST_ONLY"} or any(
        token.text.startswith("@@") for token in statement
    ):
        call.mark("service-change", f"SQL: {said}")
    else:
        call.mark("read", f"SQL: {said}")


def _replicated(call: Call, statement: list[Token], said: str) -> None:
    """START and RESET: of a transaction or a setting they are nothing, of a server a lot."""
    uppers = {token.upper for token in statement[1:]}
    if uppers & {"MASTER", "BINARY", "SLAVE", "REPLICA", "PERSIST", "GROUP_REPLICATION"}:
        call.mark("service-change", f"SQL: {said}")
        if statement[0].upper == "RESET":
            call.irreversible(f"SQL: {said}")
    else:
        call.mark("service-change" if "CACHE" in uppers else "read", f"SQL: {said}")


def _ended(call: Call, statement: list[Token], said: str) -> None:
    """COMMIT and ROLLBACK of what another session prepared reach beyond this one."""
    prepared = any(token.upper == "PREPARED" for token in statement)
    call.mark("write" if prepared else "read", f"SQL: {said}")


def _pragma(call: Call, statement: list[Token], said: str) -> None:
    changes = any(token.text == "=" for token in statement)
    call.mark("write" if changes else "read", f"SQL: {said}")


def _created(call: Call, statement: list[Token], said: str) -> None:
    uppers = {token.upper for token in statement}
    call.mark("write", f"SQL: {said}")
    if uppers & {"USER", "ROLE"}:
        call.mark("privilege", f"SQL: {said}")
    if uppers & {"FUNCTION", "PROCEDURE", "LANGUAGE", "EXTENSION", "TRIGGER", "EVENT", "LIBRARY"}:
        call.dynamic(f"SQL keeps code on the server: {said}")


_Work = Callable[[Call, list[Token], str], None]
_VERBS: dict[str, _Work] = {
    "SELECT": _looks, "WITH": _looks, "VALUES": _looks, "EXPLAIN": _explained,
    "DESCRIBE": _explained, "DESC": _explained, "UPDATE": _rows, "DELETE": _rows,
    "COPY": _copied, "SET": _setting, "PRAGMA": _pragma, "CREATE": _created,
    "START": _replicated, "RESET": _replicated, "COMMIT": _ended, "ROLLBACK": _ended,
}  # fmt: skip


def _functions(call: Call, statement: list[Token]) -> None:
    """Functions may do anything; those that are known to only compute are left alone."""
    reading = statement[0].upper in ("SELECT", "WITH", "VALUES", "EXPLAIN", "SHOW", "TABLE")
    for token, following in pairwise(statement):
        if following.text != "(" or token.kind not in ("word", "name"):
            continue
        name = token.text.strip('"`[]').lower()
        if name in _REACHES:
            call.mark(_REACHES[name], f"SQL function {name}")
        elif reading and not _HARMLESS.match(name):
            call.mark("unknown", f"SQL function {name}, which may do anything")


def _gathering(call: Call, statement: list[Token]) -> None:
    """MySQL writes files by SELECT … INTO OUTFILE."""
    uppers = {token.upper for token in statement}
    if uppers & {"OUTFILE", "DUMPFILE"}:
        call.mark("write", "writes a file on the server")


_QUIET_META = re.compile(
    r"\\(?:[dlz]\w*\+?|conninfo|x|timing|pset|q|\?|h|c|connect|a|t|f|H|s|u|G|g|encoding|echo|qecho"
    r"|dt\+?|df\+?|du\+?|dn\+?|set|unset|errverbose|sf|sv|if|endif|else|elif|watch|bind)\Z"
)


def _meta(call: Call, statement: list[Token]) -> None:
    """Backslash commands of psql and mysql."""
    verb = statement[0].text
    rest = "".join(token.text for token in statement[1:])
    if verb.lower().startswith("\\copy") and "program" not in rest.lower():
        call.mark("write", "\\copy moves rows between a file and the server")
    elif not _QUIET_META.match(verb) or "`" in rest or "|" in rest:
        call.dynamic(f"{verb} leaves SQL")
    else:
        call.mark("read", f"{verb} looks")
