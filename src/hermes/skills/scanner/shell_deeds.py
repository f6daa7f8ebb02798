"""Shell read for what it can do: where it writes, what it removes, to whom it sends."""

import re
from collections.abc import Iterator

from hermes.skills.scanner.deed import Deed, host_in
from hermes.skills.scanner.shell_text import Passage, bounded, logical_lines
from hermes.skills.scanner.shell_unfolded import unfolded
from hermes.skills.scanner.signs import signs

_WRITTEN = re.compile(
    r"(?<![\d&<>-])(?:&|\d)?>>?\|?\s*[\"']?([^\s\"'&;|()<>]+)|\btee\s+(?:-\w+\s+)*[\"']?([^\s\"';|]+)|"
    r"\b(?:cp|mv|ln|install|rsync)\s+(?:[^\n;|&]*\s)?[\"']?([^\s\"';|&]+)[\"']?\s*(?:$|[;|&)])|"
    r"\b(?:sed|perl)\s+(?:-\S+\s+)*-\S*i\S*\s+(?:[^\n;|&]*\s)[\"']?([^\s\"';|&]+)|"
    r"\s(?:-o|-O|--output|--output-document)[= ]?[\"']?([^\s\"';|&]+)|\bof=([^\s;|&]+)"
)
_NETWORK = re.compile(
    r"(?:^|[;|&(`!]\s*|\b(?:sudo|then|do|else|RUN|exec|nohup|time|xargs|if|while)\s+(?:-\S+\s+)*)(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|scp|sftp|ftp|rsync|http|https|aria2c)\s|/dev/(?:tcp|udp)/"
)
_SENDS = re.compile(
    r"\s(?:-\w*[dFT]|--data\S*|--form\S*|--upload-file|--json|--post-(?:data|file)\S*|--body-\w+)[\s=@\"']|-X\s*(?:POST|PUT|PATCH)|"
    r"\|\s*(?:curl|nc|ncat|netcat|socat|ssh|telnet|openssl)\b|/dev/(?:tcp|udp)/|\b(?:scp|sftp|ftp)\b|\b(?:nc|ncat|socat)\s"
)
_CARRIES = re.compile(r"@[\w~$./\"'{-]|\$\(|`|\$\{?\w+|<\s*\S|\|\s*(?:curl|nc|ncat|socat|ssh)")
_BARE_HOST = re.compile(
    r"/dev/(?:tcp|udp)/([\w.$-]+)|\b(?:nc|ncat|netcat|telnet)\s+(?:-\S+\s+)*([\w-]+(?:\.[\w-]+)+)|"
    r"\b(?:scp|rsync|sftp|ssh)\b[^\n;|]*?[\s@]([\w-]+(?:\.[\w-]+)+)(?::|\s|$)|"
    r"\b(?:curl|wget|http)\b[^\n;|]*\s[\"']?([\w-]+(?:\.[\w-]+)+)[/\"'\s]"
)
_LOOKUP = re.compile(
    r"\b(?:dig|kdig|delv|nslookup|host|ping6?|drill|getent\s+\w+|resolvectl|systemd-resolve|"
    r"traceroute|tracepath|mtr|avahi-resolve\S*|Resolve-DnsName)\b"
    r"[^\n;|$]{0,200}\$[^\n;|]{0,200}?\.([\w-]+\.[\w.-]+)"
)
_REMOVES = re.compile(
    r"(?:^|[\s;|&(`])(?:rm\s+(?:-\S+\s+)*-\w*[rR]\w*\s+([^\n;|&]+)|find\s+((?:[^\s-]\S*\s+)+)[^\n;|]*(?:-delete\b|-exec\s+(?:rm|shred)\b)|"
    r"shred\s+([^\n;|&]+)|git\s+clean\s+-\w*f\w*x?(\w*))"
)
_OWN_OUTPUT = re.compile(
    r"(?:^|[/_\W])(?:tmp|temp|tmp\w*|tmpdir|out|output|build|dist|cache|\.cache|work|workdir|target|scratch|stag\w*|node_modules|"
    r"__pycache__|\.venv|venv|env|coverage|htmlcov|lists|unpacked|extract\w*|dest\w*|test\w*|\.terraform|\.next|\.git/\S+)(?:[/_\W]|$)",
    re.IGNORECASE,
)
_MADE_AND_RUN = re.compile(
    r"\b(\w+)=[\"']?(?:\$\(|`)\s*mktemp\b[\s\S]{0,2000}?(?:^|[;&|]\s*)(?:\.|source|bash|sh|python3?|perl|exec|chmod\s+\S+)"
    r"\s+[\"']?\$\{?\1\b",
    re.MULTILINE,
)
_FETCHED = re.compile(
    r"\b(?:curl|wget|aria2c|fetch)\b(?P<how>[^\n;|]*?)"
    r"(?:\s-\w*[oO]\s*|--output(?:-document)?[= ]|>\s*)"
    r"[\"']?(?P<file>(?!/dev/null|-)[^\s\"';|&>]+)(?P<rest>[^\n;|]*)"
)
MOST_FETCHES = 40
_BEFORE_EYES = ("access", "trust", "tracks", "names", "proxy", "agent", "money", "stays", "spies",
                "floods", "shadows", "unreadable")  # fmt: skip
_IN_SCRIPTS = ("privilege", "workflows", "listens", "dynamic", "environment", "destroys", "asks",
               "unprotects")  # fmt: skip
"""A command in the text is read by whoever takes the skill in; a script mostly is not."""


def shell_deeds(file: str, passage: Passage, *, shown: bool = False) -> Iterator[Deed]:
    """`shown`: a fence of the text itself, which its reader sees."""
    for number, line in logical_lines(unfolded(passage.text)):
        if line.lstrip().startswith("#"):
            continue
        at = passage.line + number
        if signs("shell", "trusted_installers")[0].pattern.search(line):
            continue
        for kind in _BEFORE_EYES if shown else (*_BEFORE_EYES, *_IN_SCRIPTS):
            if found := signs("shell_deeds", kind)[0].pattern.search(line):
                deed = Deed(kind=kind, file=file, line=at, detail=found[0].strip(), shown=shown)
                yield from () if _is_given(kind, line, passage.text) else (deed,)
        if not shown and (secret := _secret_in(line)):
            yield Deed(kind="credentials", file=file, line=at, detail=secret)
        yield from _written(file, at, line, shown)
        if not shown:
            yield from _removed(file, at, line)
        yield from _sent(file, at, line, shown)

    if not shown:
        yield from _brought(file, passage.line, bounded(unfolded(passage.text)))
    if made := _MADE_AND_RUN.search(passage.text):
        at = passage.line + passage.text.count("\n", 0, made.start())
        yield Deed(kind="unreadable", file=file, line=at, detail=" ".join(made[0].split())[-60:])


def _is_given(kind: str, line: str, text: str) -> bool:
    """A command that whoever calls the script has written themselves."""
    run = re.search(r"sh\s+-c\s+[\"']?\$\{?(\w+)", line) if kind == "dynamic" else None
    return bool(run and re.search(rf"\b{run[1]}=[\"']?\$\{{?[1-9@*]", text))


def settings_deeds(file: str, text: str) -> Iterator[Deed]:
    """Rights that settings give away, to whoever puts them in force."""
    for kind in ("access", "privilege", "trust", "unreadable", "unprotects"):
        pattern = re.compile(
            signs("shell_deeds", f"settings_{kind}")[0].pattern.pattern, re.I | re.M
        )
        if found := pattern.search(text):
            at = text.count("\n", 0, found.start()) + 1
            yield Deed(kind=kind, file=file, line=at, detail=" ".join(found[0].split()))


def _brought(file: str, first: int, text: str) -> Iterator[Deed]:
    """What is fetched into a file, and that file is run: code that nobody has read."""
    for found in list(_FETCHED.finditer(text))[:MOST_FETCHES]:
        name = re.escape(found["file"].rpartition("/")[2])
        runs = re.compile(
            rf"(?:^|[;&|(]\s*|\b(?:sudo|exec|nohup|then|do)\s+)(?:[-@+!]*\S*\b(?:ba|z|da|k)?sh\s+|"
            rf"\S*\bpython3?\s+|\S*\bperl\s+|node\s+|source\s+|\.\s+|chmod\s+\S+\s+|-?)"
            rf"[\"']?(?:[\w.$~{{}}/-]*/)?{name}(?![\w.])",
            re.MULTILINE,
        )
        if runs.search(text, found.end()):
            words = f"{found['how']} {found['rest']}"
            if signs("shell", "trusted_installers")[0].pattern.search(words):
                continue
            at = first + text.count("\n", 0, found.start())
            shown = " ".join(found[0].split())[:80]
            yield Deed(kind="brings", file=file, line=at, detail=shown, host=host_in(words) or "?")


def _secret_in(line: str) -> str:
    """A place where secrets lie, unless it is only a key to log in with."""
    rest = re.sub(r"\b(?:ssh|scp|rsync|sftp|ssh-copy-id|ssh-add|ssh-keygen|git)\b[^\n]*", "", line)
    found = signs("shell", "secret_anywhere")[0].pattern.search(rest)
    return found[0].strip() if found else ""


def _written(file: str, at: int, line: str, shown: bool) -> Iterator[Deed]:
    for found in _WRITTEN.finditer(line):
        path = next((each for each in found.groups() if each), "")
        path = re.sub(r"^(?:\$HOME|\$\{HOME\}|/root|/home/\w+)(?=/)", "~", path)
        for kind in ("agent", "workflows", "names", "access", "stays", "tracks", "privilege"):
            if path and signs("places", kind)[0].pattern.search(path):
                yield Deed(kind=kind, file=file, line=at, detail=f"writes {path}", shown=shown)
                break


def _removed(file: str, at: int, line: str) -> Iterator[Deed]:
    for found in _REMOVES.finditer(line):
        target = next((each for each in found.groups() if each), "")
        narrow = target.startswith(".") and "-name" in found[0]
        for each in re.sub(r"\s\d?>\S+|[\"']", " ", target).split():
            here = re.fullmatch(r"(?![./~*]+$)[\w.*-][\w./*-]*", each)
            if (
                not narrow
                and not here
                and not each.startswith("-")
                and not _OWN_OUTPUT.search(each)
            ):
                path = re.sub(r"^(?:\$HOME|\$\{HOME\})(?=/|$)", "~", each)
                yield Deed(kind="delete", file=file, line=at, detail=found[0].strip(), thing=path)


def _sent(file: str, at: int, line: str, shown: bool) -> Iterator[Deed]:
    lookup = _LOOKUP.search(line)
    if not _NETWORK.search(line) and not lookup:
        return
    bare = _BARE_HOST.search(line)
    host = (lookup[1] if lookup else host_in(line)) or next(
        (each for each in (bare.groups() if bare else ()) if each), ""
    )
    sends = bool(lookup) or bool(_SENDS.search(line)) or bool(re.search(r"\?\S*=\S*\$|/\$\(", line))
    if shown:
        sends = sends and bool(_CARRIES.search(line.replace(host, "")))
    yield Deed(
        kind="network", file=file, line=at, detail=line.strip()[:80], host=host.casefold(),
        sends=sends, shown=shown,
    )  # fmt: skip
