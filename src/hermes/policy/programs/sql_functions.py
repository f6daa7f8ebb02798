"""SQL functions: an allow list of those that only compute, and the effects of well-known others."""

import re

from hermes.policy.commands.effects import word_set

_HARMLESS_FUNCTION = re.compile(
    r"(?:explain|analyze|count|sum|avg|min|max|now|coalesce|nullif|greatest|least|round|floor|ceil"
    r"|ceiling|abs|sign|mod|div|ln|exp|power|sqrt|trunc|truncate|length|char_length|octet_length"
    r"|lower|upper|initcap|trim|ltrim|rtrim|btrim|lpad|rpad|substr|substring|left|right|replace"
    r"|translate|reverse|repeat|concat|concat_ws|position|strpos|instr|locate|split_part|ascii|chr"
    r"|starts_with|regexp_(?:count|instr|like|match|matches|replace|substr|split_to_\w+)"
    r"|string_to_array|to_char|to_date|to_number|to_hex|encode|decode"
    r"|(?:current_|local|to_|unix_|statement_|transaction_|clock_)?timestamp(?:add|diff|tz)?"
    r"|from_unixtime|date_(?:part|trunc|bin|add|sub|diff|format)|date|datetime|time|timeofday"
    r"|timediff|datediff|dateDiff|strftime|julianday|curdate|curtime"
    r"|extract|age|interval|make_(?:date|time|timestamp|timestamptz|interval)|justify_\w+"
    r"|cast|convert|if|ifnull|isnull|iif|case|when|then"
    r"|else|in|exists|any|all|some|distinct|values|over|partition|filter|within|lateral|grouping"
    r"|rollup|cube|row|row_number|rank|dense_rank|percent_rank|cume_dist|lag|lead|first_value"
    r"|last_value|nth_value|ntile|percentile_\w+|mode|string_agg|group_concat|array"
    r"|array_(?:agg|append|cat|length|lower|ndims|position|positions|remove|to_json|to_string|upper)"
    r"|unnest|cardinality|json_?\w*|jsonb_\w+|row_to_json|to_jsonb?|generate_series|pg_size_pretty"
    r"|pg_\w*_size|pg_stat_(?!reset|file)\w+(?<!reset)|pg_is_\w+|pg_last_\w+|pg_current_\w+|pg_wal_lsn_diff"
    r"|pg_walfile_name\w*|pg_get_\w+|pg_blocking_pids|pg_postmaster_start_time|pg_backend_pid"
    r"|pg_typeof|pg_sleep|pg_locks|pg_lock_status|pg_has_role|pg_conf_load_time|pg_tablespace_\w+"
    r"|pg_table_is_visible|pg_encoding_to_char|pg_control_\w+|pg_show_\w+|has_\w+_privilege"
    r"|obj_description|col_description|format_type|regclass|current_\w+|session_user|user|version"
    r"|database|schema|inet_\w+|host|network|txid_current\w*|format|quote_ident|quote_literal"
    r"|md5|sha1|sha2|sha256|hex|unhex|bin|conv|crc32|random|rand|stddev\w*|variance|var_(?:pop|samp)|corr"
    r"|bit_and|bit_or|bool_and|bool_or|every|width_bucket|histogram|uniq\w*|quantile\w*|topk\w*"
    r"|to(?:Date|DateTime|StartOf|Hour|Minute|Unix|String|Int|UInt|Float)\w*|formatReadable\w+"
    r"|(?:count|sum|avg|min|max|any|uniq|quantile)If|today|yesterday|from|as|and|or|not|on"
    r"|where|using|having|by|select|union|join|into|with"
    r"|char|varchar|numeric|decimal|int|text|bigint|sqlite_version|changes|total|typeof|like|glob"
    r"|between|found_rows|connection_id|hostname|last_insert_id|row_count|uuid|field|elt|arrayJoin"
    r"|bar|any_value|argM(?:ax|in)|groupArray|hour|minute|second|day|month|year|week|quarter)\Z",
    re.I,
)
_FUNCTION_EFFECTS = {
    "pg_terminate_backend": "service-change", "pg_cancel_backend": "service-change",
    "pg_reload_conf": "service-change", "pg_promote": "irreversible",
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
    "lo_get": "secret-read", "loread": "secret-read", "lowrite": "write", "lo_put": "write",
    "lo_creat": "write", "lo_create": "write", "lo_truncate": "delete", "pg_notify": "write",
    "ts_stat": "exec-dynamic", "pg_logdir_ls": "secret-read", "gin_clean_pending_list": "write",
}  # fmt: skip
_SYSTEM_SCHEMAS = word_set("pg_catalog information_schema sys")


def find_function_effect(name: str, schema: str = "") -> str:
    """Empty for a function that only computes; `unknown` for one that is not listed.

    In a schema of its own, a function is that of a user, whatever its name.
    """
    if name in _FUNCTION_EFFECTS:
        return _FUNCTION_EFFECTS[name]
    own = bool(schema) and schema not in _SYSTEM_SCHEMAS
    return "unknown" if own or not _HARMLESS_FUNCTION.match(name) else ""


_CODE_RUNNING_NAME = re.compile(r"pg_|lo_|dblink|\w+_to_xml(?:schema|_and_xmlschema)?\Z|brin_\w+_")
"""Names that tables hardly have for a column, but the server for functions."""


def find_attribute_effect(name: str) -> str:
    """The same for a name after a dot, which may be that of a column as well."""
    if name in _FUNCTION_EFFECTS and name not in _COLUMN_NAMES:
        return _FUNCTION_EFFECTS[name]
    return find_function_effect(name) if _CODE_RUNNING_NAME.match(name) else ""


_COLUMN_NAMES = word_set("url file remote edit s3 executable read_csv read_parquet")
"""Functions of other servers, whose names PostgreSQL has for columns only."""
