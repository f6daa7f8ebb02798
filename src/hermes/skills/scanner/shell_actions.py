"""Finds what shell and SQL in a skill would do."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath

from hermes.skills.scanner.action import SkillAction, find_host
from hermes.skills.scanner.deobfuscation import unfold_shell
from hermes.skills.scanner.finding import line_number
from hermes.skills.scanner.literal_search import IndexedLines, find_first, find_matches
from hermes.skills.scanner.patterns import LazyPattern, load_pattern
from hermes.skills.scanner.shell_text import (
    LOGIN_COMMAND,
    ShellPassage,
    join_continued_lines,
    split_long_lines,
)

MAX_SQL_CHARS = 256 << 10
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*[\s\S]*?\*/")
_CREATED_OBJECT = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|MATERIALIZED)\s+)*"
    r"(?:TABLE|VIEW|SCHEMA|INDEX|FUNCTION|TYPE|SEQUENCE|DATABASE)\s+(?:CONCURRENTLY\s+)?"
    r"(?:IF\s+NOT\s+EXISTS\s+)?+[\\\"'`\[]{0,2}([\w.{}$]+)",
    re.IGNORECASE,
)
_SQL_ACTION_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
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
_EMBEDDED_SQL = re.compile(
    r"\b(?:psql|mysql|mariadb|sqlite3|sqlcmd|clickhouse-client|duckdb)\b[^\n]*<<-?\s*[\"']?(?P<end>\w+)"
    r"[\"']?[^\n]*\n(?P<code>.*?)^\s*(?P=end)\s*$|"
    r"\.(?:execute|executescript|executemany|query|raw|exec)\(\s*(?:text\(\s*)?[frb]{0,2}"
    r"(?P<q>\"\"\"|'''|\"|'|`)(?P<statement>[\s\S]*?)(?P=q)",
    re.MULTILINE | re.DOTALL,
)
_WRITTEN_PATH = re.compile(
    r"(?<![\d&<>-])(?:&|\d)?>>?\|?\s*[\"']?([^\s\"'&;|()<>]+)|\btee\s+(?:-\w+\s+)*[\"']?([^\s\"';|]+)|"
    r"\b(?:cp|mv|ln|install|rsync)\s+(?:[^\n;|&]*\s)?[\"']?([^\s\"';|&]+)[\"']?\s*(?:$|[;|&)])|"
    r"\b(?:sed|perl)\s+(?:-\S+\s+)*-\S*i\S*\s+(?:[^\n;|&]*\s)[\"']?([^\s\"';|&]+)|"
    r"\s(?:-o|-O|--output|--output-document)[= ]?[\"']?([^\s\"';|&]+)|\bof=([^\s;|&]+)"
)
_NETWORK_COMMAND = re.compile(
    r"(?:^|[;|&(`!]\s*|\b(?:sudo|then|do|else|RUN|exec|nohup|time|xargs|if|while)\s+(?:-\S+\s+)*)(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|scp|sftp|ftp|rsync|http|https|aria2c)\s|/dev/(?:tcp|udp)/"
)
_SENDING_OPTION = re.compile(
    r"\s(?:-\w*[dFT]|--data\S*|--form\S*|--upload-file|--json|--post-(?:data|file)\S*|--body-\w+)[\s=@\"']|-X\s*(?:POST|PUT|PATCH)|"
    r"\|\s*(?:curl|nc|ncat|netcat|socat|ssh|telnet|openssl)\b|/dev/(?:tcp|udp)/|\b(?:scp|sftp|ftp)\b|\b(?:nc|ncat|socat)\s"
)
_LOCAL_DATA = re.compile(r"@[\w~$./\"'{-]|\$\(|`|\$\{?\w+|<\s*\S|\|\s*(?:curl|nc|ncat|socat|ssh)")
_HOST_ARGUMENT = re.compile(
    r"/dev/(?:tcp|udp)/([\w.$-]+)|\b(?:nc|ncat|netcat|telnet)\s+(?:-\S+\s+)*([\w-]+(?:\.[\w-]+)+)|"
    r"\b(?:scp|rsync|sftp|ssh)\b[^\n;|]*?[\s@]([\w-]+(?:\.[\w-]+)+)(?::|\s|$)|"
    r"\b(?:curl|wget|http)\b[^\n;|]*\s[\"']?([\w-]+(?:\.[\w-]+)+)[/\"'\s]"
)
_DNS_LOOKUP = re.compile(
    r"\b(?:dig|kdig|delv|nslookup|host|ping6?|drill|getent\s+\w+|resolvectl|systemd-resolve|"
    r"traceroute|tracepath|mtr|avahi-resolve\S*|Resolve-DnsName)\b"
    r"[^\n;|$]{0,200}\$[^\n;|]{0,200}?\.([\w-]+\.[\w.-]+)"
)
_REMOVAL_COMMAND = re.compile(
    r"(?:^|[\s;|&(`])(?:rm\s+(?:-\S+\s+)*-\w*[rR]\w*\s+([^\n;|&]+)|find\s+((?:[^\s-]\S*\s+)+)[^\n;|]*(?:-delete\b|-exec\s+(?:rm|shred)\b)|"
    r"shred\s+([^\n;|&]+)|git\s+clean\s+-\w*f\w*x?(\w*))"
)
_OUTPUT_PATH = re.compile(
    r"(?:^|[/_\W])(?:tmp|temp|tmp\w*|tmpdir|out|output|build|dist|cache|\.cache|work|workdir|target|scratch|stag\w*|node_modules|"
    r"__pycache__|\.venv|venv|env|coverage|htmlcov|lists|unpacked|extract\w*|dest\w*|test\w*|\.terraform|\.next|\.git/\S+)(?:[/_\W]|$)",
    re.IGNORECASE,
)
_TEMPORARY_SCRIPT = re.compile(
    r"\b(\w+)=[\"']?(?:\$\(|`)\s*mktemp\b[\s\S]{0,2000}?(?:^|[;&|]\s*)(?:\.|source|bash|sh|python3?|perl|exec|chmod\s+\S+)"
    r"\s+[\"']?\$\{?\1\b",
    re.MULTILINE,
)
_DOWNLOAD_TO_FILE = re.compile(
    r"\b(?:curl|wget|aria2c|fetch)\b(?P<how>[^\n;|]*?)"
    r"(?:\s-\w*[oO]\s*|--output(?:-document)?[= ]|>\s*)"
    r"[\"']?(?P<file>(?!/dev/null|-)[^\s\"';|&>]+)(?P<rest>[^\n;|]*)"
)
MAX_DOWNLOADS = 40
_QUOTED_TEXT = re.compile(r"(?<!-c )(?<!eval )\"(?:\\.|[^\"\\`\n])*\"")
_SEPARATORS = str.maketrans("|;&(", "    ")
_KINDS_ANYWHERE = (
    "access", "trust", "tracks", "names", "proxy", "agent", "money", "stays", "background", "spies",
    "floods", "shadows", "unreadable",
)  # fmt: skip
_TRUSTED = "trusted"
_KINDS_IN_SCRIPTS = (
    "privilege", "workflows", "listens", "dynamic", "environment", "destroys", "asks",
    "unprotects",
)  # fmt: skip
"""Only checked in scripts: a command in the document is read by the user."""


def find_shell_actions(
    file: str, passage: ShellPassage, *, in_document: bool = False
) -> Iterator[SkillAction]:
    """`in_document`: a code block of the document, which the user sees."""
    plain = unfold_shell(passage.text)
    lines = join_continued_lines(plain)
    possible = _find_possible_kinds([line for _, line in lines], in_document=in_document)
    for place, (number, line) in enumerate(lines):
        at, kinds = passage.line + number, possible.get(place, ())
        if line.lstrip().startswith("#") or (
            _TRUSTED in kinds and load_pattern("shell", "trusted_installers").search(line)
        ):
            continue
        for kind in kinds:
            if detail := _find_kind(kind, line, passage.text):
                yield SkillAction(kind, file, at, detail, in_document=in_document)
        yield from _find_writes(file, at, line, in_document)
        if not in_document:
            yield from _find_removals(file, at, line)
        yield from _find_network_actions(file, at, line, in_document)

    if not in_document:
        yield from _find_download_and_run(file, passage.line, split_long_lines(plain))
    if temporary := _TEMPORARY_SCRIPT.search(passage.text):
        at = passage.line + passage.text.count("\n", 0, temporary.start())
        yield SkillAction("unreadable", file, at, " ".join(temporary[0].split())[-60:])


def _find_possible_kinds(lines: Sequence[str], *, in_document: bool) -> dict[int, list[str]]:
    """By line: the kinds of which it contains the words."""
    kinds = _KINDS_ANYWHERE if in_document else (*_KINDS_ANYWHERE, *_KINDS_IN_SCRIPTS)
    patterns = {kind: load_pattern("shell_actions", kind) for kind in kinds}
    patterns[_TRUSTED] = load_pattern("shell", "trusted_installers")
    if not in_document:
        patterns["credentials"] = load_pattern("shell", "secret_anywhere")
    index = IndexedLines(lines)
    found: dict[int, list[str]] = {}
    for kind, pattern in patterns.items():
        for place in index.find_candidates(pattern):
            found.setdefault(place, []).append(kind)
    return found


def _find_kind(kind: str, line: str, text: str) -> str:
    """What the line does of this kind; empty when it does nothing of it."""
    if kind == _TRUSTED:
        return ""
    if kind == "credentials":
        return _find_secret_path(line)
    said = _mask_quoted_text(line) if kind == "unreadable" else line
    found = load_pattern("shell_actions", kind).search(said)
    return found[0].strip() if found and not _runs_caller_argument(kind, line, text) else ""


def _mask_quoted_text(line: str) -> str:
    """Within quotes, `|` and `;` begin no command, unless a shell reads the text."""

    def mask(found: re.Match[str]) -> str:
        return found[0] if "$(" in found[0] else found[0].translate(_SEPARATORS)

    return _QUOTED_TEXT.sub(mask, line)


def _runs_caller_argument(kind: str, line: str, text: str) -> bool:
    """The command is an argument of the script, written by its caller."""
    run = re.search(r"sh\s+-c\s+[\"']?\$\{?(\w+)", line) if kind == "dynamic" else None
    return bool(run and re.search(rf"\b{run[1]}=[\"']?\$\{{?[1-9@*]", text))


@cache
def _load_settings_pattern(kind: str) -> LazyPattern:
    pattern = load_pattern("shell_actions", f"settings_{kind}")
    return LazyPattern(pattern.pattern, re.IGNORECASE | re.MULTILINE)


def find_settings_actions(file: str, text: str) -> Iterator[SkillAction]:
    """Rights that a settings file would grant."""
    for kind in ("access", "privilege", "trust", "unreadable", "unprotects"):
        if found := find_first(_load_settings_pattern(kind), text):
            at = line_number(text, found.start())
            yield SkillAction(kind, file, at, " ".join(found[0].split()))


def _find_download_and_run(file: str, first: int, text: str) -> Iterator[SkillAction]:
    """A download into a file that is then run."""
    for found in list(_DOWNLOAD_TO_FILE.finditer(text))[:MAX_DOWNLOADS]:
        name = re.escape(found["file"].rpartition("/")[2])
        runs = re.compile(
            rf"(?:^|[;&|(]\s*|\b(?:sudo|exec|nohup|then|do)\s+)(?:[-@+!]*\S*\b(?:ba|z|da|k)?sh\s+|"
            rf"\S*\bpython3?\s+|\S*\bperl\s+|node\s+|source\s+|\.\s+|chmod\s+\S+\s+|-?)"
            rf"[\"']?(?:[\w.$~{{}}/-]*/)?{name}(?![\w.])",
            re.MULTILINE,
        )
        if runs.search(text, found.end()):
            words = f"{found['how']} {found['rest']}"
            if load_pattern("shell", "trusted_installers").search(words):
                continue
            at = first + text.count("\n", 0, found.start())
            excerpt = " ".join(found[0].split())[:80]
            yield SkillAction("brings", file, at, excerpt, host=find_host(words) or "?")


def _find_secret_path(line: str) -> str:
    """A path of secrets, unless it is only a key for a login."""
    found = load_pattern("shell", "secret_anywhere").search(LOGIN_COMMAND.sub("", line))
    return found[0].strip() if found else ""


def _find_writes(file: str, at: int, line: str, in_document: bool) -> Iterator[SkillAction]:
    for found in _WRITTEN_PATH.finditer(line):
        path = next((each for each in found.groups() if each), "")
        path = re.sub(r"^(?:\$HOME|\$\{HOME\}|/root|/home/\w+)(?=/)", "~", path)
        for kind in ("agent", "workflows", "names", "access", "stays", "tracks", "privilege"):
            if path and load_pattern("paths_and_hosts", kind).search(path):
                yield SkillAction(kind, file, at, f"writes {path}", in_document=in_document)
                break


def _find_removals(file: str, at: int, line: str) -> Iterator[SkillAction]:
    for found in _REMOVAL_COMMAND.finditer(line):
        target = next((each for each in found.groups() if each), "")
        if target.startswith(".") and "-name" in found[0]:
            continue
        for each in re.sub(r"\s\d?>\S+|[\"']", " ", target).split():
            here = re.fullmatch(r"(?![./~*]+$)[\w.*-][\w./*-]*", each)
            if not here and not each.startswith("-") and not _OUTPUT_PATH.search(each):
                path = re.sub(r"^(?:\$HOME|\$\{HOME\})(?=/|$)", "~", each)
                yield SkillAction("delete", file, at, found[0].strip(), removed_path=path)


def _find_network_actions(
    file: str, at: int, line: str, in_document: bool
) -> Iterator[SkillAction]:
    lookup = _DNS_LOOKUP.search(line)
    if not _NETWORK_COMMAND.search(line) and not lookup:
        return
    bare = _HOST_ARGUMENT.search(line)
    host = (lookup[1] if lookup else find_host(line)) or next(
        (each for each in (bare.groups() if bare else ()) if each), ""
    )
    sends = bool(lookup or _SENDING_OPTION.search(line) or re.search(r"\?\S*=\S*\$|/\$\(", line))
    if in_document:
        sends = sends and bool(_LOCAL_DATA.search(line.replace(host, "")))
    shown, host = line.strip()[:80], host.casefold()
    yield SkillAction("network", file, at, shown, "", host, sends, in_document)


def find_sql_actions(path: str, text: str) -> Iterator[SkillAction]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in (".sql", ".psql", ".ddl", ".plsql"):
        yield from _read_sql(path, text[:MAX_SQL_CHARS], 1)
    elif suffix in (".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".php", ".pl", ".go"):
        whole = text[:MAX_SQL_CHARS]
        for found in _EMBEDDED_SQL.finditer(whole):
            code = found["code"] or found["statement"] or ""
            yield from _read_sql(path, code, line_number(whole, found.start()), whole)


def _read_sql(path: str, code: str, first: int, around: str = "") -> Iterator[SkillAction]:
    """Objects that the skill itself creates may be removed."""
    bare = split_long_lines(_SQL_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), code))
    own = {each[1].casefold() for each in _CREATED_OBJECT.finditer(around or bare)}
    for kind, pattern in _SQL_ACTION_PATTERNS:
        for found in find_matches(pattern, bare):
            target = next((each for each in found.groupdict().values() if each), "").casefold()
            scratch = target in own or bool(re.search(r"te?mp|staging|scratch|_new$|_old$", target))
            if not scratch:
                line = first + bare.count("\n", 0, found.start())
                excerpt = " ".join(found[0].split())
                yield SkillAction(kind, path, line, excerpt)
                break
