"""All that the files of a foreign skill can do, held against what its description says."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes.skills.scanner.database import sql_deeds
from hermes.skills.scanner.deed import Deed, far, weigh
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.other_deeds import other_deeds
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.python_deeds import python_deeds
from hermes.skills.scanner.run_by_others import is_settings
from hermes.skills.scanner.shell_deeds import settings_deeds, shell_deeds
from hermes.skills.scanner.shell_text import passages
from hermes.skills.scanner.somebodys import constant_deeds

_LANGUAGES = {"python": "python", "perl": "pl", "node": "js", "ruby": "rb", "php": "php",
              "lua": "lua", "osascript": "js"}  # fmt: skip
_ARGUMENT = re.compile(
    r"\b(?P<by>python[\d.]*|perl|node|ruby|php)\s+(?:-\S+\s+)*-\w*[cer]\s+"
    r"(?P<q>[\"'])(?P<code>(?:\\.|(?!(?P=q)).)*)(?P=q)",
    re.DOTALL,
)
_HEREDOC = re.compile(
    r"\b(?P<by>python[\d.]*|perl|node|ruby|php|lua|osascript)\b[^\n<]*<<-?\s*[\"']?(?P<end>\w+)[\"']?[^\n]*\n"
    r"(?P<code>.*?)^\s*(?P=end)\s*$",
    re.DOTALL | re.MULTILINE,
)
_OWN_TOOL = re.compile(
    r"^\s*hermes\s+(?:approvals?|policy|config\s+set|skills\s+trust|memory\s+(?:add|set|write))\b"
)
"""Commands by which a person steers the agent; a skill has no business with them."""
_FENCE = re.compile(
    r"^[ \t]*```(?:python|py|python3)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE
)


def look_at_deeds(texts: Sequence[tuple[str, str]], purpose: Purpose) -> Iterator[Finding]:
    found = [deed for path, text in texts for deed in deeds_of(path, text)]
    yield from weigh([deed for deed in found if deed.kind != "secret-name"], purpose)
    yield from _secret_names(found, purpose)
    yield from _joined(found)


def deeds_of(path: str, text: str) -> Iterator[Deed]:
    suffix = PurePosixPath(path).suffix
    shown = suffix in (".md", ".markdown", ".mdx", ".rst", ".txt")
    for passage in passages(path, text):
        if passage.whole or suffix in (".yaml", ".yml"):
            yield from shell_deeds(path, passage, shown=shown)
        elif _OWN_TOOL.search(passage.text):
            yield Deed(kind="agent", file=path, line=passage.line, detail=passage.text)
    for line, language, code in embedded(text):
        if language == "python":
            yield from _moved(python_deeds(path, code), line)
        else:
            yield from _moved(other_deeds(f"x.{language}", code), line, path)
    if suffix in (".py", ".pyw", ".pyi") or re.match(r"#!.*\bpython", text):
        yield from python_deeds(path, text)
    elif shown:
        for found in _FENCE.finditer(text):
            yield from python_deeds(path, found[1])
    if is_settings(path) and not text.startswith("#!"):
        yield from settings_deeds(path, text)
    yield from other_deeds(path, text)
    yield from sql_deeds(path, text)
    yield from constant_deeds(path, text)


def _moved(deeds: Iterable[Deed], line: int, path: str = "") -> Iterator[Deed]:
    for deed in deeds:
        yield replace(deed, line=deed.line + line - 1, file=path or deed.file)


def embedded(text: str) -> Iterator[tuple[int, str, str]]:
    """Programs within shell: `python -c "…"`, `perl -e '…'`, `node <<'EOF'`."""
    for pattern in (_ARGUMENT, _HEREDOC):
        for found in pattern.finditer(text):
            language = _LANGUAGES[re.sub(r"[\d.]", "", found["by"])]
            yield text.count("\n", 0, found.start()) + 1, language, found["code"]


def _joined(found: Sequence[Deed]) -> Iterator[Finding]:
    """One file collects, another sends: together they carry off what neither does alone."""
    takes = [
        each for each in found if each.kind in ("credentials", "environment") and not each.shown
    ]
    sends = [each for each in found if each.kind == "network" and each.sends and far(each.host)]
    if takes and sends:
        cause = f"it takes {takes[0].detail[:60]!r}, and sends something to {sends[0].host!r}"
        yield Finding(kind="capability", file=takes[0].file, line=takes[0].line, cause=cause)


def _secret_names(found: Sequence[Deed], purpose: Purpose) -> Iterator[Finding]:
    """A variable that holds a secret, read by code that talks, and named nowhere."""
    for deed in found:
        if deed.kind != "secret-name" or deed.detail.casefold() in purpose.whole:
            continue
        words = [part for part in deed.detail.casefold().split("_") if len(part) > 3]
        known = [word for word in words if word not in ("token", "secret", "access", "password")]
        hosts = " ".join(each.host for each in found if each.file == deed.file).strip("? ")
        if hosts and not any(word in hosts or word in purpose.short for word in known):
            cause = f"it reads the secret {deed.detail!r}, which its text does not name, and talks"
            yield Finding(kind="capability", file=deed.file, line=deed.line, cause=cause)
