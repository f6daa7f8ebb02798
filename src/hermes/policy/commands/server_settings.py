"""Settings that a client asks the PostgreSQL server for when it connects, or by SET.

Some load libraries into the server, or decide which functions a query calls. Only those are
harmless that limit time, choose a format or steer the planner. Confined commands that only read get
`READ_ONLY_OPTION`, so text that replaces it or switches it off is not harmless.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import unquote

from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import has_untrusted_text, literal_text

_HARMLESS_SETTINGS = word_set(
    "statement_timeout lock_timeout idle_in_transaction_session_timeout idle_session_timeout"
    " transaction_timeout default_transaction_isolation default_transaction_deferrable timezone"
    " datestyle intervalstyle"
    " client_min_messages application_name extra_float_digits bytea_output xmloption work_mem"
    " maintenance_work_mem temp_buffers random_page_cost seq_page_cost cpu_tuple_cost"
    " effective_cache_size effective_io_concurrency from_collapse_limit join_collapse_limit jit"
    " geqo max_parallel_workers_per_gather plan_cache_mode constraint_exclusion"
    " default_statistics_target tcp_keepalives_idle tcp_keepalives_interval tcp_keepalives_count"
    " tcp_user_timeout"
)
_READ_ONLY_SETTINGS = word_set("default_transaction_read_only transaction_read_only")
_ON_VALUES = word_set("on true yes 1")
_OPTION = re.compile(r"(?:-c\s*|--)(?P<name>\w+)=(?P<value>[\w.:/,+-]*)(?:\s+|\Z)")
_KEYWORD = re.compile(r"(?:^|[\s?&])options\s*=\s*")
_KEYWORD_VALUE = re.compile(r"'(?P<quoted>[^'\\]*)'(?=[\s&]|\Z)|(?P<plain>[^\s&'\\]*)(?=[\s&]|\Z)")
_URI = re.compile(r"\w+://")


_SIZE_SETTING = re.compile(
    r"(?:@@)?(?:(?:global|persist)\.)?(?:max_|innodb_(?:buffer|io|log_buffer|thread|lock_wait)"
    r"|thread_|table_|tmp_table|wait_timeout|interactive_timeout|net_|sort_|join_|read_only"
    r"|super_read_only|long_query|slow_query_log\Z|(?:slave|replica)_parallel"
    r"|read_(?:rnd_)?buffer|connect_timeout|lock_wait)",
    re.I,
)


SAFE_ENCODING = (
    r"(?:utf-?8\w*|unicode|sql_ascii|ascii|binary|latin-?\d+|iso[_-]?8859[_-]?\d+|koi8\w*"
    r"|(?:win|cp|windows-)125\d|default)\b"
)
UNSAFE_ENCODING = re.compile(
    r"(?:client_encoding\s*=|\\encoding\s|default[-_]character[-_]set[=\s]|character_set\w*\s*:?="
    rf"|\bset\s+(?:names|character\s+set|charset)\b|(?:^|[;\s])\\?charset\s)\W*(?!\W|{SAFE_ENCODING})",
    re.I,
)
"""A setting of a client. In others than these, a letter may end with the code of a backslash."""


def sets_only_sizes(tokens: Sequence[str]) -> bool:
    """Return whether a SET of MySQL gives the server only sizes, times and usual switches."""
    names = [name for name, sign in pairwise(tokens) if sign in ("=", ":=")]
    return bool(names) and all(map(_SIZE_SETTING.match, names))


def is_harmless_setting(name: str, value: str) -> bool:
    """Return whether the setting of a PostgreSQL server may have this value."""
    plain = name.lower().replace("-", "_")
    if plain in _READ_ONLY_SETTINGS:
        return value.strip("'").lower() in _ON_VALUES
    return plain in _HARMLESS_SETTINGS or plain.startswith("enable_")


def are_harmless_options(text: str) -> bool:
    """Return whether options for the server are all harmless, and its session stays read-only."""
    rest, reads_only = literal_text(text).strip(), False
    while rest:
        option = _OPTION.match(rest)
        if option is None or not is_harmless_setting(option["name"], option["value"]):
            return False
        reads_only |= option["name"].lower() == "default_transaction_read_only"
        rest = rest[option.end() :]
    return reads_only


def is_harmless_connection(text: str) -> bool:
    """Return whether a connection string, or the name of a database, sets nothing else on the
    server."""
    if has_untrusted_text(text):
        return False
    plain = literal_text(text)
    if _URI.match(plain):
        fields = [unquote(each).partition("=") for each in plain.partition("?")[2].split("&")]
        return all(are_harmless_options(value) for name, _, value in fields if name == "options")
    for keyword in _KEYWORD.finditer(plain):
        value = _KEYWORD_VALUE.match(plain, keyword.end())
        if value is None or not are_harmless_options(value["quoted"] or value["plain"] or ""):
            return False
    return True
