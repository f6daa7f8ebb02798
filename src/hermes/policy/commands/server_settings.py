"""Settings that a client asks the PostgreSQL server for when it connects, or by SET.

Some load libraries into the server, or decide which functions a query calls. Only those are
harmless that limit time, choose a format or steer the planner.
"""

import re
from urllib.parse import unquote

from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import has_untrusted_text, literal_text

_HARMLESS_SETTINGS = word_set(
    "statement_timeout lock_timeout idle_in_transaction_session_timeout idle_session_timeout"
    " transaction_timeout default_transaction_read_only transaction_read_only"
    " default_transaction_isolation default_transaction_deferrable timezone datestyle intervalstyle"
    " client_min_messages application_name extra_float_digits bytea_output xmloption work_mem"
    " maintenance_work_mem temp_buffers random_page_cost seq_page_cost cpu_tuple_cost"
    " effective_cache_size effective_io_concurrency from_collapse_limit join_collapse_limit jit"
    " geqo max_parallel_workers_per_gather plan_cache_mode constraint_exclusion"
    " default_statistics_target tcp_keepalives_idle tcp_keepalives_interval tcp_keepalives_count"
    " tcp_user_timeout"
)
_OPTION = re.compile(r"(?:-c\s*|--)(?P<name>\w+)=(?P<value>[\w.:/,+-]*)(?:\s+|\Z)")
_KEYWORD = re.compile(r"(?:^|[\s?&])options\s*=\s*")
_KEYWORD_VALUE = re.compile(r"'(?P<quoted>[^'\\]*)'(?=[\s&]|\Z)|(?P<plain>[^\s&'\\]*)(?=[\s&]|\Z)")
_URI = re.compile(r"\w+://")


def is_harmless_setting(name: str) -> bool:
    """Whether the setting of a PostgreSQL server may have any value."""
    return name.lower().replace("-", "_") in _HARMLESS_SETTINGS or name.lower().startswith(
        "enable_"
    )


def are_harmless_options(text: str) -> bool:
    """Whether options for the server, such as `-c statement_timeout=5s`, are all harmless."""
    rest = literal_text(text).strip()
    while rest:
        option = _OPTION.match(rest)
        if option is None or not is_harmless_setting(option["name"]):
            return False
        rest = rest[option.end() :]
    return True


def is_harmless_connection(text: str) -> bool:
    """Whether a connection string, or the name of a database, sets nothing else on the server."""
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
