"""Compares everything a skill can do, contact or embed with what its description declares."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes.skills.scanner.action import SkillAction, compare_with_purpose, is_remote_host
from hermes.skills.scanner.deobfuscation import unfold_shell
from hermes.skills.scanner.finding import (
    DOCUMENT_SUFFIXES,
    TABLE_SUFFIXES,
    ScanFinding,
    find_fenced_programs,
    is_large_data,
    line_number,
)
from hermes.skills.scanner.literal_search import find_matches
from hermes.skills.scanner.other_languages import find_other_actions
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.purpose import DeclaredPurpose
from hermes.skills.scanner.python.actions import find_python_actions
from hermes.skills.scanner.python.static_values import parse_python
from hermes.skills.scanner.shell_actions import (
    find_settings_actions,
    find_shell_actions,
    find_sql_actions,
)
from hermes.skills.scanner.shell_text import (
    extract_shell_passages,
    is_settings_file,
    split_long_lines,
)

MAX_CONSTANT_SCAN_CHARS = 256 << 10
_DATA_SUFFIXES = (".csv", ".tsv", ".txt", ".log", ".html", ".svg")
_SSH_PUBLIC_KEY = re.compile(
    r"^(?P<before>[^\n]*?)(?P<key>(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-ssh-\S+)\s+"
    r"AAAA[\w+/]{20,})",
    re.MULTILINE,
)
_KNOWN_HOSTS_PREFIX = re.compile(r"(?:[\w*-]+\.[\w.*,:\[\]-]+|\|1\|\S+)\s+$")
"""Host names before the key: a line of `known_hosts`."""
_WALLET_ADDRESS = re.compile(
    r"[\"'`=\s](?P<to>bc1[a-z0-9]{30,62}|0x[0-9a-fA-F]{40}|4[0-9AB][1-9A-HJ-NP-Za-km-z]{93})[\"'`\s;]"
)
_URL_HOST = re.compile(
    r"(?:https?|ftps?|wss?|tcp|udp|ldaps?|rsync|git|ssh|redis|amqp|mqtt)://"
    r"(?:[^/@\s\"']*@)?([a-z0-9_-]+(?:\.[a-z0-9_-]+)+)",
    re.IGNORECASE,
)
_LINE_ESCAPE = re.compile(r"\\[nrt]")
_QUOTED_HOST = re.compile(
    r"[\"'@]([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|ru|cn|xyz|top|test|example|invalid|"
    r"info|site|online|cc|tk|cloud|link|click|live))(?:[\"':/]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_HOST_SETTING = re.compile(
    r"\b(?:host|hostname|target|server|address|endpoint|url|remote\w*)[\"']?"
    r"[ \t]*(?:=|:|[ \t])[ \t]*[\"']?"
    r"([a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|dev|ru|cn|xyz|top|test|info|site|online|cc|tk|"
    r"cloud|link|click|live))(?![\w.-])",
    re.IGNORECASE,
)
"""A setting that names a remote host."""
_JOINED_HOST = re.compile(
    r"[\"']\.[\"']\.join\(\s*[(\[]((?:\s*[\"'][\w-]+[\"']\s*,?){2,6})\s*[)\]]"
)
_IP_ADDRESS = re.compile(r"(?<![\w.<>~^!])(?<![<>~^!=]=)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_DEVICE_HOST = re.compile(
    r"/(?:dev|inet\d?)/(?:tcp|udp)/(?:\d+/)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.I
)
_COMMENT_LINE = re.compile(r"^[ \t]*(?:#(?!!)|//|--|;|\*|<!--)[^\n]*", re.MULTILINE)
_REFERENCE_DATA_SUFFIXES = (".json", ".yaml", ".yml")
MAX_COMMON_STEM_CHARS = 3
_REFERENCE_FOLDERS = frozenset({
    "references", "reference", "examples", "samples", "fixtures", "evals", "snapshots", "testdata",
})  # fmt: skip
_NAMED_ONLY = re.compile(
    r"^[ \t]*(?:echo|printf|info|warn(?:ing)?|error|fail|die|log|note)[ \t]+"
    r"([\"'])[^\"'`$|;&<>\n]*\1(?:[ \t]*>&2)?[ \t]*$|"
    r"^[ \t]*\"(?:author\w*|home_?page|documentation\w*|licen[sc]e\w*|publisher\w*)\"[ \t]*:"
    r"[ \t]*\"[^\"\n]*\",?[ \t]*$|"
    r"\bgit[ \t]+config[ \t]+(?:--\w+[ \t]+)?user\.email[ \t]+[^\s;&|$`]+",
    re.MULTILINE,
)
"""Messages, fields about the author, and the address of a committer: nothing connects to them."""
_ARGUMENT_SENT = re.compile(r"\b(?:curl|wget|nc|ssh|fetch|ping|dig)\b[^\n]*\$(?:[1-9@*]|\{[1-9@*])")
"""With such a line in the file, what looks like a message may be the argument of a request."""
_URL_TEXT = re.compile(r"(?:https?|wss?)://[^\s\"'`<>)]*")
_PROGRAM_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".bats")
_HANDS_ON = re.compile(
    r"subprocess|webbrowser|\bspawn|\bexec|\bsystem\b|popen|"
    r"\bsrc\b|\bhref\b|<\w+[ >]|!\[|formula|hyperlink",
    re.IGNORECASE,
)
"""It starts programs, or writes pages and sheets that load what they name."""
_REACHING_KINDS = frozenset({
    "network", "brings", "dynamic", "listens", "unreadable", "environment", "credentials", "stays",
})  # fmt: skip
_MAIL_PROGRAM = re.compile(
    r"smtp|sendmail|\bmailx?\b|mutt|mailgun|sendgrid|postmark|MIMEText|EmailMessage|nodemailer|"
    r"send_?mail|send_?message|gmail|\bses\b",
    re.IGNORECASE,
)
"""Without one, an address of e-mail is only data."""
_MANIFEST = re.compile(r"(?:^|/)(?:package|plugin|marketplace|manifest|pyproject)\.(?:json|toml)$")
_NETWORK_WORD = re.compile(
    r"socket|requests|httpx|urllib|http|smtp|ftp|fetch|connect|\bnc\b|\bssh\b|\bdig\b|nslookup|"
    r"\bping\b|resolve|curl|wget|rsync|mail",
    re.IGNORECASE,
)
_SENDING_WORD = re.compile(
    r"\bheaders\s*=\s*\{[^}]*:\s*[a-z_]+\s*[,}]|\b(?:post|put|patch|upload\w*|send\w*|storbinary|exec|eval|system|popen)\b|-d\s|--data|\s-F\s|"
    r"\s-T\s|\|\s*(?:ba|z)?sh\b|\$\(\s*(?:curl|wget)|chmod|\btar\s+-?\w*x|\bunzip\b|extractall|/dev/(?:tcp|udp)|/inet|\bnc\b|ssh://",
    re.IGNORECASE,
)
_INTERPRETER_SUFFIXES = {
    "python": "python", "perl": "pl", "node": "js", "ruby": "rb", "php": "php", "lua": "lua",
    "osascript": "js",
}  # fmt: skip
_CODE_ARGUMENT = re.compile(
    r"\b(?P<by>python[\d.]*|perl|node|ruby|php)\s+(?:-\S+\s+)*-\w*[cer]\s+"
    r"(?P<q>[\"'])(?P<code>(?:\\.|(?!(?P=q)).)*)(?P=q)",
    re.DOTALL,
)
_CODE_HEREDOC = re.compile(
    r"\b(?P<by>python[\d.]*|perl|node|ruby|php|lua|osascript)\b[^\n<]*<<-?\s*[\"']?(?P<end>\w+)[\"']?[^\n]*\n"
    r"(?P<code>.*?)^\s*(?P=end)\s*$",
    re.DOTALL | re.MULTILINE,
)
_HERMES_ADMIN_COMMAND = re.compile(
    r"^\s*hermes\s+(?:approvals?|policy|config\s+set|skills\s+trust|memory\s+(?:add|set|write))\b"
)
"""Commands by which the user controls the agent; a skill must not use them."""


def check_actions(
    texts: Sequence[tuple[str, str]], purpose: DeclaredPurpose
) -> Iterator[ScanFinding]:
    found = [action for path, text in texts for action in find_actions(path, text)]
    yield from compare_with_purpose(
        [action for action in found if action.kind != "secret-name"], purpose
    )
    yield from _check_secret_variables(found, purpose)
    yield from _check_exfiltration(found)


def find_actions(path: str, text: str) -> Iterator[SkillAction]:
    suffix = PurePosixPath(path).suffix
    in_document = suffix in DOCUMENT_SUFFIXES
    for passage in extract_shell_passages(path, text):
        if passage.is_script or suffix in (".yaml", ".yml"):
            yield from find_shell_actions(path, passage, in_document=in_document)
        elif _HERMES_ADMIN_COMMAND.search(passage.text):
            yield SkillAction("agent", path, passage.line, passage.text)
    for line, language, code in find_embedded_programs(text):
        if language == "python":
            yield from _shift_lines(find_python_actions(path, code), line)
        else:
            yield from _shift_lines(find_other_actions(f"x.{language}", code), line, path)
    if suffix in (".py", ".pyw", ".pyi") or re.match(r"#!.*\bpython", text):
        yield from find_python_actions(path, text)
    elif in_document:
        yield from _find_fenced_actions(path, text)
    if is_settings_file(path) and not text.startswith("#!"):
        yield from find_settings_actions(path, text)
    yield from find_other_actions(path, text)
    yield from find_sql_actions(path, text)
    yield from find_embedded_identities(path, text)


def _find_fenced_actions(path: str, text: str) -> Iterator[SkillAction]:
    for line, suffix, code in find_fenced_programs(text):
        if suffix == ".py":
            yield from _shift_lines(find_python_actions(path, code), line)
        else:
            yield from _shift_lines(find_other_actions(f"x{suffix}", code), line, path)


def _shift_lines(
    actions: Iterable[SkillAction], line: int, path: str = ""
) -> Iterator[SkillAction]:
    for action in actions:
        yield replace(action, line=action.line + line - 1, file=path or action.file)


def find_embedded_programs(text: str) -> Iterator[tuple[int, str, str]]:
    """Programs within shell: `python -c "…"`, `perl -e '…'`, `node <<'EOF'`."""
    for pattern in (_CODE_ARGUMENT, _CODE_HEREDOC):
        for found in find_matches(pattern, text):
            language = _INTERPRETER_SUFFIXES[re.sub(r"[\d.]", "", found["by"])]
            yield line_number(text, found.start()), language, found["code"]


def _check_exfiltration(found: Sequence[SkillAction]) -> Iterator[ScanFinding]:
    """One file collects secrets and another one sends data."""
    takes = [
        each
        for each in found
        if each.kind in ("credentials", "environment") and not each.in_document
    ]
    sends = [
        each
        for each in found
        if each.kind == "network" and each.sends and is_remote_host(each.host)
    ]
    if takes and sends:
        cause = f"it takes {takes[0].detail[:60]!r}, and sends something to {sends[0].host!r}"
        yield ScanFinding("capability", takes[0].file, takes[0].line, cause)


def _check_secret_variables(
    found: Sequence[SkillAction], purpose: DeclaredPurpose
) -> Iterator[ScanFinding]:
    """An undeclared variable that holds a secret, read by code that uses the network."""
    for action in found:
        if action.kind != "secret-name" or action.detail.casefold() in purpose.all_text:
            continue
        words = [part for part in action.detail.casefold().split("_") if len(part) > 3]
        known = [word for word in words if word not in ("token", "secret", "access", "password")]
        hosts = " ".join(each.host for each in found if each.file == action.file).strip("? ")
        if hosts and not any(word in hosts or word in purpose.summary for word in known):
            cause = f"it reads the undeclared secret {action.detail!r} and uses the network"
            yield ScanFinding("capability", action.file, action.line, cause)


def find_embedded_identities(path: str, text: str) -> Iterator[SkillAction]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in DOCUMENT_SUFFIXES and suffix != ".txt":
        return
    code = split_long_lines(text[:MAX_CONSTANT_SCAN_CHARS])
    for found in _SSH_PUBLIC_KEY.finditer(code):
        if not _KNOWN_HOSTS_PREFIX.search(found["before"]):
            shown = found["key"][:60]
            yield SkillAction("keys", path, line_number(code, found.start()), shown)
            break
    wallet = None if suffix in _DATA_SUFFIXES else _WALLET_ADDRESS.search(code)
    if wallet:
        yield SkillAction("money", path, line_number(code, wallet.start()), wallet["to"])


def check_hosts(
    texts: Sequence[tuple[str, str]], purpose: DeclaredPurpose
) -> Iterator[ScanFinding]:
    """A download from an undeclared host is only noted when the description declares downloads."""
    reported: set[str] = set()
    public = load_pattern("paths_and_hosts", "public")
    mails = any(_MAIL_PROGRAM.search(text) for path, text in texts if not _is_document(path))
    for path, text in texts:
        if _is_document(path):
            continue
        if _is_reference_data(path, text, texts):
            continue
        code = _COMMENT_LINE.sub("", _remove_docstrings(path, text))
        code = split_long_lines(_remove_named_only(code))
        settings = is_settings_file(path) and not text.startswith("#!")
        gets = not settings and purpose.declares("network", prominently=True)
        gets = gets and not _SENDING_WORD.search(code)
        for at, host in _find_hosts(code, settings=settings):
            if host in reported or public.fullmatch(host):
                continue
            if not is_remote_host(host) or purpose.names_host(host):
                continue
            if code[at : at + 1] == "@" and (not mails or _MANIFEST.search(path)):
                continue
            reported.add(host)
            number = host.replace(".", "").isdigit()
            cause = f"it knows the address {host!r}, which its text does not mention"
            blocks = number or not (gets or _only_mentions(path, text, texts))
            yield ScanFinding("capability", path, line_number(code, at), cause, blocks)


def _only_mentions(path: str, text: str, texts: Sequence[tuple[str, str]]) -> bool:
    """Whether no file of the skill acts on anything outside: then the address is data."""
    code = _URL_TEXT.sub("", text)
    is_program = PurePosixPath(path).suffix.casefold() in _PROGRAM_SUFFIXES
    if not is_program or _NETWORK_WORD.search(code) or _HANDS_ON.search(code):
        return False
    return not any(
        action.kind in _REACHING_KINDS
        for other, each in texts
        if not _is_document(other)
        for action in find_actions(other, each)
    )


def _remove_docstrings(path: str, text: str) -> str:
    """Of a Python file that does not read them itself."""
    if not path.endswith(".py") or "__doc__" in text or "getdoc" in text:
        return text
    lines = text.split("\n")
    for node in parse_python(text).nodes:
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            for number in range(first.lineno, (first.end_lineno or first.lineno) + 1):
                lines[number - 1] = ""
    return "\n".join(lines)


def _is_document(path: str) -> bool:
    return PurePosixPath(path).suffix.casefold() in DOCUMENT_SUFFIXES + TABLE_SUFFIXES


def _is_reference_data(path: str, text: str, texts: Sequence[tuple[str, str]]) -> bool:
    """Whether only the reader of the text opens this file, as if it were a document."""
    file = PurePosixPath(path)
    aside = _REFERENCE_FOLDERS.intersection(file.parts[:-1])
    shown = aside and file.suffix.casefold() in _REFERENCE_DATA_SUFFIXES
    if not shown and not is_large_data(path, len(text)):
        return False
    name = file.stem if len(file.stem) > MAX_COMMON_STEM_CHARS else file.name
    return not any(
        name in text
        for other, text in texts
        if PurePosixPath(other).suffix.casefold()
        not in (*DOCUMENT_SUFFIXES, *TABLE_SUFFIXES, *_REFERENCE_DATA_SUFFIXES)
    )


def _remove_named_only(code: str) -> str:
    return code if _ARGUMENT_SENT.search(code) else _NAMED_ONLY.sub("", code)


def _find_hosts(code: str, *, settings: bool) -> Iterator[tuple[int, str]]:
    usual = load_pattern("shell", "trusted_installers")
    code = _LINE_ESCAPE.sub("  ", code)
    for found in _URL_HOST.finditer(code):
        if not usual.match(code, found.start()):
            yield found.start(), found[1].casefold()
    for pattern in (_DEVICE_HOST, _HOST_SETTING) if settings else (_DEVICE_HOST,):
        yield from ((found.start(), found[1].casefold()) for found in pattern.finditer(code))
    for found in _JOINED_HOST.finditer(code):
        yield found.start(), ".".join(re.findall(r"[\w-]+", found[1])).casefold()
    if settings or _NETWORK_WORD.search(code):
        for found in _QUOTED_HOST.finditer(code):
            yield found.start(), found[1].casefold()
        for found in _IP_ADDRESS.finditer(code):
            if load_pattern("python", "far").fullmatch(found[0]):
                yield found.start(), found[0]
    plain = unfold_shell(code) if len(code) < 64 << 10 else code
    if plain != code:
        hidden = (found for found in _URL_HOST.finditer(plain) if not usual.match(found[0]))
        yield from ((0, found[1].casefold()) for found in hidden)
