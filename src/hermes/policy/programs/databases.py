"""Database clients: the statement may be in an option, an argument or the input."""

import re
from fnmatch import fnmatchcase
from urllib.parse import unquote

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.server_settings import UNSAFE_ENCODING
from hermes.policy.commands.tables import ProgramEntry, find_program, parse_arguments
from hermes.policy.programs.sql import is_complete_statement, mark_sql_effects
from hermes.policy.programs.table_effects import apply_table

_READ_ONLY_DOT_COMMAND = re.compile(
    r"\.(?:tables?|schema|headers?|mode|indexes|indices|databases|dbinfo|dump|width|nullvalue|timer"
    r"|stats|show|help|quit|exit|separator|echo|print|eqp|explain|limit|lint|sha3sum|version|changes)\b"
)


_MYSQL_CLIENTS = word_set("mysql mariadb mycli mysqlsh")
_OTHER_SPELLING = re.compile(
    r"--(?:loose|enable|maximum)[-_]|--(?:skip|disable)[-_](?!column|ssl|auto|line|reconnect|pager"
    r"|comments|progress|named|tee\b|safe)"
)
"""Every option of these clients has such forms."""


def sql_client(call: ProgramCall, entry: ProgramEntry) -> str:
    """psql, mysql, clickhouse-client, sqlcmd…: the SQL is in options or in stdin."""
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    if host := found.value("-h", "--host", "-S", "--server"):
        call.set_target(host=host)
    for word in call.argv[1:]:
        if call.program in _MYSQL_CLIENTS and _OTHER_SPELLING.match(word):
            call.dynamic(f"{display_text(word)} is another spelling of an option")
    if UNSAFE_ENCODING.search(unquote(" ".join([*call.argv[1:], call.stdin or ""]))):
        call.dynamic(f"{call.program} gets an encoding in which quotes end elsewhere")
    asked = any(rule.does == ("sql",) and found.names() & rule.names for rule in entry.option_rules)
    quiet = any(
        rule.does[0] == "only" and found.names() & rule.names for rule in entry.option_rules
    )
    if call.stdin is not None and not asked:
        _judge_piped_sql(call)
    elif not asked and not quiet and "exec-dynamic" not in call.effects:
        call.dynamic(f"{call.program} waits for statements")
    return ANY_WORD


def _judge_piped_sql(call: ProgramCall) -> None:
    mark_sql_effects(call, call.stdin or "")


def sqlite(call: ProgramCall, entry: ProgramEntry) -> str:
    """`sqlite3 file 'SQL' '.command'`."""
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    if found.has("-version", "--version", "-help", "--help"):
        call.mark("read", "tells about itself")
        return ANY_WORD
    for word in found.words[:1]:
        call.reads(word)
    texts = [*found.values("-cmd", "--cmd"), *found.words[1:]]
    if call.stdin is not None and len(found.words) < 2:
        texts.append(call.stdin)
    if not texts:
        call.dynamic("sqlite3 waits for statements")
    for text in texts:
        _judge_sqlite_text(call, text)
    changes = {"write", "delete", "irreversible"} & call.effects.keys()
    if changes and found.words:
        call.writes(found.words[0])
    return ANY_WORD


def _judge_sqlite_text(call: ProgramCall, text: str) -> None:
    """A line that begins with a dot is a command, except within a statement."""
    pending: list[str] = []
    for line in literal_text(text).split("\n"):
        if not line.lstrip().startswith("."):
            pending.append(line)
            continue
        if not is_complete_statement(call, "\n".join(pending)):
            call.dynamic("a dot command within SQL")
        _judge_dot_command(call, line.strip())
    mark_sql_effects(call, "\n".join(pending))


def _judge_dot_command(call: ProgramCall, line: str) -> None:
    if not _READ_ONLY_DOT_COMMAND.match(line) or "|" in line:
        call.dynamic(f"sqlite3 {display_text(line.split()[0])} leaves SQL")
        if line.startswith((".sh", ".sy")):
            call.shell(line.partition(" ")[2])


_REDIS_READ_OPTIONS = word_set(
    "--scan --bigkeys --memkeys --hotkeys --latency --stat --version --latency-history"
    " --latency-dist --intrinsic-latency"
)


def redis(call: ProgramCall, entry: ProgramEntry) -> str:
    """A redis command in the arguments, or lines of commands in the input."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    if host := found.value("-h", "-u"):
        call.set_target(host=host)
    if found.has(
        "--eval", "--pipe", "--rdb", "--functions-rdb", "--replica", "--cluster", "--user-script"
    ):
        call.dynamic("redis-cli with a mode that does more than one command")
        return ANY_WORD
    if found.names() & _REDIS_READ_OPTIONS:
        call.mark("read", "redis-cli looks")
        return ANY_WORD
    words = found.rest
    if found.has("-x", "-X"):
        call.mark("network-out", "redis-cli -x sends what it reads")
    if words:
        _redis_command(call, words)
    elif call.stdin is not None:
        if has_untrusted_text(call.stdin):
            call.dynamic("redis-cli runs what is piped in")
        for line in literal_text(call.stdin).splitlines():
            if line.strip():
                _redis_command(call, line.split())
    else:
        call.dynamic("redis-cli waits for commands")
    return ANY_WORD


def _redis_command(call: ProgramCall, words: list[str]) -> None:
    verbs = find_program("redis command")
    words = words[1:] if words[0].isdigit() and len(words) > 1 else words
    upper = [*(word.upper() for word in words[:3]), *words[3:]]
    upper[:3] = [word.strip("\"'") for word in upper[:3]]
    effects = verbs.verb(upper) if verbs and is_fully_known(words[0]) else None
    text = display_text(" ".join(words[:2]))
    if effects is None:
        call.mark("unknown", f"redis {text} is not known")
        return
    call.mark_all(effects, f"redis {text}")
    if upper[:2] == ["CONFIG", "GET"]:
        shown = [literal_text(pattern).strip("\"'").lower() for pattern in words[2:]]
        if any(fnmatchcase(name, each) for name in _REDIS_PASSWORDS for each in shown):
            call.mark("secret-read", f"redis {text} shows passwords")
    if has_untrusted_text(words[0]):
        call.dynamic("the redis command is only known at run time")


_REDIS_PASSWORDS = ("requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass")
_MONGO_READS = re.compile(
    r"(?:find|findOne|count|countDocuments|estimatedDocumentCount|distinct|limit|sort|skip|pretty"
    r"|toArray|explain|stats|serverStatus|currentOp|status|conf|config|printReplicationInfo|getName"
    r"|printSecondaryReplicationInfo|getCollectionNames|getCollectionInfos|getIndexes|isMaster|hello"
    r"|version|getSiblingDB|getCollection|hostInfo|size|length|totalSize|dataSize|storageSize|print"
    r"|printjson|listDatabases|getMongo|getDBNames|getReplicationInfo|itcount|hasNext|projection|ISODate"
    r"|ObjectId|Date|toString|getProfilingStatus|serverBuildInfo|validate|latencyStats|JSON|stringify|tojson)\Z"
)
_MONGO_OPTION = re.compile(r"(?<=[?&])([^=&]*)=")
_MONGO_HARMLESS_OPTIONS = word_set(
    "replicaset readpreference readpreferencetags maxstalenessseconds authsource retrywrites"
    " retryreads w wtimeoutms journal ssl tls directconnection connecttimeoutms sockettimeoutms"
    " serverselectiontimeoutms heartbeatfrequencyms appname maxpoolsize minpoolsize"
    " readconcernlevel loadbalanced compressors"
)
_MONGO_LITERAL = re.compile(r"""'[^'\\\n]*'|"[^"\\\n]*"|/(?:[\w .^$+-][\w .^$*+-]*)/[gimsuy]*""")
_MONGO_UNCLEAR = re.compile(r"/|\\|\+|\?\.|\)\s*\(")
"""Outside literals: comments, escapes, joined strings, and calls of what no name says."""
_MONGO_NAME = re.compile(r"(?<![\w$.])(?<!\.\s)[A-Za-z_$][\w$]*(?!\s*:)(?![\w$])")
_MONGO_ROOTS = word_set(
    "db rs sh print printjson tojson JSON ISODate ObjectId Date NumberLong NumberInt new true false"
    " null"
)
"""What an expression may begin with; `process` or `require` would reach this machine."""
_MONGO_SECRETS = re.compile(r"system\.users|\bshow\s+users\b|getUsers?\b")
_MONGO_DELETES = re.compile(r"(?i)drop|remove|delete|convertToCapped")


def mongo(call: ProgramCall, entry: ProgramEntry) -> str:
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    for word in found.words:
        for option in _MONGO_OPTION.findall(word):
            if unquote(option).lower() not in _MONGO_HARMLESS_OPTIONS:
                call.dynamic(f"{option} in a connection string is not known to be harmless")
    texts = found.values("--eval")
    if call.stdin is not None:
        texts.append(call.stdin)
    if not texts:
        call.dynamic("the mongo shell runs scripts, or waits for input")
    for text in texts:
        _judge_mongo_script(call, text)
    return ANY_WORD


def _judge_mongo_script(call: ProgramCall, text: str) -> None:
    if not is_fully_known(text):
        call.dynamic("part of the script is only known at run time")
    plain = literal_text(text)
    methods = re.findall(r"([A-Za-z_$][\w$]*)\s*\(", plain)
    if _MONGO_SECRETS.search(plain):
        call.mark("secret-read", "password hashes of the database")
    if re.fullmatch(
        r"\s*show (?:dbs|databases|collections|tables|users|roles|logs|profile)\s*;?\s*", text
    ):
        call.mark("read", "mongo looks")
    elif any(_MONGO_DELETES.search(method) for method in methods):
        call.mark("delete", f"mongo {display_text(text)[:40]}")
        call.irreversible(f"mongo {display_text(text)[:40]}")
    elif (
        re.search(r"[\[`]|[^=<>!]=[^=]|=>|function|\$out|\$merge|\$where|\$function", plain)
        or not methods
        or _MONGO_UNCLEAR.search(outside := _MONGO_LITERAL.sub("''", plain))
        or not _MONGO_ROOTS.issuperset(_MONGO_NAME.findall(outside))
    ):
        call.dynamic("a script for the mongo shell")
    elif all(_MONGO_READS.match(method) for method in methods):
        call.mark("read", "mongo looks")
    else:
        call.mark("write", f"mongo {display_text(text)[:40]}")
