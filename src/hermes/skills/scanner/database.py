"""SQL of a foreign skill: tables that go, rights that are given, programs that are started."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.deed import Deed
from hermes.skills.scanner.shell_text import bounded

LARGEST = 256 << 10
_REMARK = re.compile(r"--[^\n]*|/\*[\s\S]*?\*/")
_MADE = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|MATERIALIZED)\s+)*"
    r"(?:TABLE|VIEW|SCHEMA|INDEX|FUNCTION|TYPE|SEQUENCE|DATABASE)\s+(?:CONCURRENTLY\s+)?"
    r"(?:IF\s+NOT\s+EXISTS\s+)?+[\\\"'`\[]{0,2}([\w.{}$]+)",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "destroys",
            r"\bTRUNCATE\s+(?:TABLE\s+)?(?:ONLY\s+)?[\\\"'`\[]{0,2}(?P<of>[\w.%{}$]+)|"
            r"\bDROP\s+(?:TABLE|DATABASE|SCHEMA|TABLESPACE|OWNED\s+BY)\s+(?:IF\s+EXISTS\s+)?+"
            r"[\\\"'`\[]{0,2}(?P<or>[\w.%{}$]+)|"
            r"\bDELETE\s+FROM\s+(?:ONLY\s+)?[\\\"'`\[]{0,2}(?P<all>[\w.%{}$]+)[\\\"'`\]]{0,2}\s*(?:;|'|\"|$|CASCADE)|"
            r"\bUPDATE\s+[\w.\"]+\s+SET\s+[^;]{1,200}?\bWHERE\s+(?:1\s*=\s*1|true)\s*;",
        ),
        (
            "access",
            r"\bGRANT\s+(?:ALL|\w*admin\w*|pg_(?:read|write|execute)\w+)\b[^;]*\bTO\b|"
            r"\b(?:CREATE|ALTER)\s+(?:USER|ROLE|LOGIN)\b[^;]*\b(?:SUPERUSER|PASSWORD|IDENTIFIED|CREATEROLE)\b|"
            r"\bALTER\s+SERVER\s+ROLE\b",
        ),
        (
            "tracks",
            r"\bALTER\s+TABLE\b[^;]*\bDISABLE\s+(?:TRIGGER|ROW\s+LEVEL)|\bSET\s+session_replication_role\s*=|"
            r"\bDISABLE\s+TRIGGER\b|\b(?:pgaudit\.log|log_statement)\s*=\s*'?(?:none|off)|"
            r"\bDROP\s+(?:EVENT\s+)?TRIGGER\b[^;]*audit|\bSET\s+(?:GLOBAL\s+)?(?:general_log|sql_log_bin)\s*=\s*0",
        ),
        (
            "dynamic",
            r"\b(?:COPY|\\copy)\b[^;]{0,400}\b(?:FROM|TO)\s+PROGRAM\b|(?<=\n)[ \t]*\\!|^\\!|"
            r"\bxp_cmdshell\b|\bsys_exec\s*\(|\bLANGUAGE\s+'?(?:c|plpython\w*u|plperlu|plsh)\b|\bINTO\s+(?:OUT|DUMP)FILE\b|\bLOAD\s+'|"
            r"\blo_export\s*\(|\bpg_read_(?:binary_)?file\s*\(|\bdblink\w*\s*\(\s*'[^']*host|"
            r"\bload_extension\s*\(|\bEXECUTE\s+(?:convert_from|decode)\s*\(",
        ),
    )
)  # fmt: skip
_HANDED = re.compile(
    r"\b(?:psql|mysql|mariadb|sqlite3|sqlcmd|clickhouse-client|duckdb)\b[^\n]*<<-?\s*[\"']?(?P<end>\w+)"
    r"[\"']?[^\n]*\n(?P<code>.*?)^\s*(?P=end)\s*$|"
    r"\.(?:execute|executescript|executemany|query|raw|exec)\(\s*(?:text\(\s*)?[frb]{0,2}"
    r"(?P<q>\"\"\"|'''|\"|'|`)(?P<said>[\s\S]*?)(?P=q)",
    re.MULTILINE | re.DOTALL,
)


def sql_deeds(path: str, text: str) -> Iterator[Deed]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in (".sql", ".psql", ".ddl", ".plsql"):
        yield from _read(path, text[:LARGEST], 1)
    elif suffix in (".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".php", ".pl", ".go"):
        whole = text[:LARGEST]
        for found in _HANDED.finditer(whole):
            code = found["code"] or found["said"] or ""
            yield from _read(path, code, whole.count("\n", 0, found.start()) + 1, whole)


def _read(path: str, code: str, first: int, around: str = "") -> Iterator[Deed]:
    """What the skill itself has made, it may take away again."""
    bare = bounded(_REMARK.sub(lambda found: "\n" * found[0].count("\n"), code))
    own = {each[1].casefold() for each in _MADE.finditer(around or bare)}
    for kind, pattern in _KINDS:
        for found in pattern.finditer(bare):
            thing = next((each for each in found.groupdict().values() if each), "").casefold()
            scratch = thing in own or bool(re.search(r"te?mp|staging|scratch|_new$|_old$", thing))
            if not scratch:
                line = first + bare.count("\n", 0, found.start())
                shown = " ".join(found[0].split())
                yield Deed(kind=kind, file=path, line=line, detail=shown)
                break
