"""The tool `search_files`, and its shell command for the searcher that the environment has.

Every word of the model is quoted, and placed where no program takes it for an option. Zero bytes
are sent as `\\2` and line ends inside names as `\\1`, so that the output stays text in lines.
"""

import re
import shlex
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, Value
from hermes.core.protocols import ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.environment_programs import program_source
from hermes.tools.executor import MAX_PREVIEW_CHARS
from hermes.tools.files.common import explain_missing_path, printable, shell_path

PATH_MISSING_MARK, NO_SEARCHER_MARK, ERROR_MARK = "\3path", "\3none", "\3"
UNREADABLE_FILES_ERROR = "[exit code 2]"
"""What ripgrep reports if it skipped files; for a wrong pattern it also prints a reason."""
_MAX_LINE_CHARS = 600
_MAX_OUTPUT_BYTES = 60_000
_RIPGREP = "rg --no-config --no-messages --color never --hidden --null --sort path"


class FileSearch(Value, kw_only=True, frozen=True):
    pattern: str
    path: str = "."
    kind: Literal["content", "names"] = "content"
    glob: str = ""
    limit: int = 50
    offset: int = 0
    context: int = 0


def search_command(search: FileSearch) -> str:
    """Asks for one line more than the limit, to know whether there are more."""
    by = _content_commands(search) if search.kind == "content" else _name_commands(search)
    ripgrep, grep, python = by
    first, count = search.offset + 1, search.limit + 1
    return f"""( set +euf; set -o pipefail; p={shell_path(search.path)}
[ -e "$p" ] || [ -h "$p" ] || {{ printf '\\003path'; exit 0; }}
has() {{ command -v "$1" >/dev/null 2>&1; }}
if has rg; then look() {{ {ripgrep}; }}
elif has grep && has find; then look() {{ {grep}; }}
elif has python3; then look() {{ {python}; }}
else printf '\\003none'; exit 0; fi
try() {{ look; s=$?; [ $s -le 1 ] || [ $s -gt 128 ] || echo "[exit code $s]" >&2; }}
err=$({{ try | tail -n +{first} | head -n {count} |
cut -c1-{_MAX_LINE_CHARS} | head -c {_MAX_OUTPUT_BYTES} >&3
}} 2>&1 | head -c 1000)
[ -z "$err" ] || printf '\\003%s' "$err" ) 3>&1"""


def _content_commands(search: FileSearch) -> tuple[str, str, str]:
    marked = "tr '\\000' '\\002'"
    python = _python(search, *_alternatives(search.glob))
    return f"{_ripgrep(search)} | {marked}", f"{_grep(search)} | {marked}", f"{python} | {marked}"


def _ripgrep(search: FileSearch) -> str:
    chosen = ""
    if "/" in search.glob:
        chosen = f"-g {shlex.quote(search.glob)}"
    elif search.glob:  # a type, unlike a glob, does not bring back what .gitignore leaves out
        chosen = f"--type wanted --type-add {shlex.quote(f'wanted:{search.glob}')}"
    return (
        f"{_RIPGREP} --no-heading --no-context-separator -nH -C{search.context} {chosen} "
        f"-g '!.git' -e {shlex.quote(search.pattern)} -- \"$p\""
    )


def _grep(search: FileSearch) -> str:
    names = " -o ".join(
        f"-path {shlex.quote('*/' + glob.replace('**/', '*'))}"
        if "/" in glob
        else f"-name {shlex.quote(glob)}"
        for glob in _alternatives(search.glob)
    )
    among = f"\\( {names} \\)" if names else ""
    context = f"-C{search.context}" if search.context else ""
    return f"""k=E; w={shlex.quote(_posix(search.pattern))}
if printf x | grep -qP x 2>/dev/null; then k=P; w={shlex.quote(search.pattern)}; fi
z=; if printf x | grep -q --null x 2>/dev/null; then z=--null; fi
grep -$k -e "$w" </dev/null; [ $? -le 1 ] || return
find "$p" -name .git -prune -o -type f {among} -exec grep -nHIs$k $z {context} -e "$w" {{}} + \
2>/dev/null"""


def _name_commands(search: FileSearch) -> tuple[str, str, str]:
    pattern = shlex.quote(name_regex(search.pattern))
    swap = "tr '\\n\\000' '\\001\\n'"
    ripgrep = f"{_RIPGREP} --files -g '!.git' -- \"$p\" | {swap} | rg --no-config -i -e {pattern}"
    every = 'find "$p" -name .git -prune -o ! -type d -print0 2>/dev/null'
    grep = f"{every} | {swap} | grep -aiE -e {pattern} | sort"
    return ripgrep, grep, _python(search)


def _python(search: FileSearch, *globs: str) -> str:
    pattern = search.pattern if search.kind == "content" else name_regex(search.pattern)
    words = ["python3", "-c", program_source("search"), search.kind, pattern]
    last = shlex.join([str(search.context), *globs])
    return f'{shlex.join(words)} "$p" {last}'


def name_regex(pattern: str) -> str:
    """A glob, or a part of a name, as a regular expression that every searcher understands."""
    if not re.search(r"[*?\[]", pattern):
        tail = "[^/]*$" if "/" not in pattern else ""
        return _escaped(pattern) + tail
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]/]+\])", pattern)
    translated = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(
        translated.get(part) or (_posix_class(part) if k % 2 else _escaped(part))
        for k, part in enumerate(parts)
    )
    return f"(^|/){regex}$"


def _posix_class(part: str) -> str:
    return "[^" + part[2:] if part.startswith("[!") else part


def _escaped(text: str) -> str:
    return re.sub(r"[][.*+?^${}()|\\]", lambda match: "\\" + match[0], text)


def _posix(pattern: str) -> str:
    """For a grep that knows only extended expressions, which lack the short classes."""
    for short, long in (("\\d", "[0-9]"), ("\\s", "[[:space:]]"), ("\\S", "[^[:space:]]")):
        pattern = pattern.replace(short, long)
    return pattern.replace("(?:", "(")


def _alternatives(glob: str) -> list[str]:
    """`*.{py,js}` as two globs; find knows no braces."""
    match = re.search(r"\{([^{}]*)\}", glob)
    if not glob or match is None:
        return [glob] if glob else []
    head, tail = glob[: match.start()], glob[match.end() :]
    return [each for part in match[1].split(",") for each in _alternatives(head + part + tail)]


_MAX_OUTPUT_CHARS = MAX_PREVIEW_CHARS - 400
_MATCH_RECORD = re.compile(r"([^\x02]*)\x02(\d+[:-][^\n]*)\n?")
_PLAIN_MATCH = re.compile(r"^(.*?)([:-])(\d+\2.*)$", re.MULTILINE)


class _FileHit(Value, frozen=True):
    path: str
    line: str = ""
    """`12:text`, or `12-text` beside a hit; empty when only names were requested."""


@tool(risk=Risk.READ)
async def search_files(
    here: ToolContext,
    pattern: Annotated[str, about("regex for content; glob or part of a name for names")],
    path: str = ".",
    kind: Literal["content", "names"] = "content",
    glob: Annotated[str, about("only files like this, e.g. *.py")] = "",
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50,
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0,
    context: Annotated[int, msgspec.Meta(ge=0, le=20, description="lines around each hit")] = 0,
) -> str:
    """Search file contents, or file names, under a folder; skips what .gitignore names."""
    if "\0" in pattern + path + glob:
        raise ToolError("a zero byte cannot be searched for")
    if glob and kind == "names":
        raise ToolError('with kind="names" the pattern is the glob; leave glob out')
    search = FileSearch(
        pattern=pattern,
        path=path,
        kind=kind,
        glob=glob,
        limit=limit,
        offset=offset,
        context=context,
    )
    hits, all_read = await _run_search(here, search)
    note = "" if all_read else "\n[some files could not be read, and were skipped]"
    if not hits:
        return ("nothing more" if offset else "nothing found") + note
    return _render_hits(hits, search) + note


async def _run_search(context: ToolContext, search: FileSearch) -> tuple[list[_FileHit], bool]:
    """The hits, and whether all files could be read."""
    result = await context.environment.run(search_command(search), timeout=60.0)
    output, _, errors = result.output.partition(ERROR_MARK)
    if ERROR_MARK + errors == PATH_MISSING_MARK:
        missing = ToolError(f"there is no {search.path}")
        raise await explain_missing_path(context.environment, search.path, missing)
    if ERROR_MARK + errors == NO_SEARCHER_MARK:
        raise ToolError("there is neither rg, nor grep and find, nor python3 in this environment")
    hits = _parse_names(output) if search.kind == "names" else _parse_matches(output)
    unreadable = errors.strip() == UNREADABLE_FILES_ERROR
    if not hits and (result.timed_out or (errors and not unreadable)):
        why = "it took too long; search a smaller folder" if result.timed_out else errors.strip()
        raise ToolError(f"the search failed: {why}")
    return hits, not unreadable


def _parse_names(output: str) -> list[_FileHit]:
    return [
        _FileHit(_display_path(line.replace("\1", "\n"))) for line in output.split("\n") if line
    ]


def _parse_matches(output: str) -> list[_FileHit]:
    if "\2" in output:
        return [_FileHit(_display_path(path), line) for path, line in _MATCH_RECORD.findall(output)]
    return [_FileHit(_display_path(path), line) for path, _, line in _PLAIN_MATCH.findall(output)]


def _display_path(path: str) -> str:
    """As a person writes it; a name that would break the listing is quoted."""
    path = path.removeprefix("--\n").removeprefix("./")
    return repr(path) if not path.isprintable() else path


def _render_hits(hits: list[_FileHit], search: FileSearch) -> str:
    shown: list[str] = []
    current, chars_left, count = "", _MAX_OUTPUT_CHARS, 0
    for hit in hits[: search.limit]:
        entry = [hit.path] if hit.path != current else []
        entry += [hit.line[:500]] if hit.line else []
        chars_left -= sum(len(line) + 1 for line in entry)
        if chars_left < 0 and shown:
            break
        shown += entry
        current, count = hit.path, count + 1
    if count < len(hits):
        shown.append(f"[there are more: offset={search.offset + count}]")
    return printable("\n".join(shown))
