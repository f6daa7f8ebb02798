"""The shell command of a search, for whichever searcher the place has. Pure: words in, text out.

Every word of the model's is quoted, and stands where no program takes it for an option. Zero bytes
travel as \\2 and line ends inside names as \\1, so that the output stays text in lines.
"""

import re
import shlex
from typing import Literal

from hermes.core.messages import Value
from hermes.tools.inside import source
from hermes.tools.nearby import shell_word

NO_PATH, NO_SEARCHER, TROUBLE = "\3path", "\3none", "\3"

_WIDEST = 600
_BYTES = 60_000
_RG = "rg --no-config --no-messages --color never --hidden --null --sort path"


class Search(Value, kw_only=True, frozen=True):
    pattern: str
    path: str = "."
    kind: Literal["content", "names"] = "content"
    glob: str = ""
    limit: int = 50
    offset: int = 0
    context: int = 0


def command(search: Search) -> str:
    """One more line than the limit is asked for, to know whether there are more."""
    by = _by_content(search) if search.kind == "content" else _by_name(search)
    ripgrep, grep, python = by
    first, count = search.offset + 1, search.limit + 1
    return f"""( set +euf; set -o pipefail; p={shell_word(search.path)}
[ -e "$p" ] || [ -h "$p" ] || {{ printf '\\003path'; exit 0; }}
has() {{ command -v "$1" >/dev/null 2>&1; }}
if has rg; then look() {{ {ripgrep}; }}
elif has grep && has find; then look() {{ {grep}; }}
elif has python3; then look() {{ {python}; }}
else printf '\\003none'; exit 0; fi
try() {{ look; s=$?; [ $s -le 1 ] || [ $s -gt 128 ] || echo "[exit code $s]" >&2; }}
err=$({{ try | tail -n +{first} | head -n {count} | cut -c1-{_WIDEST} | head -c {_BYTES} >&3
}} 2>&1 | head -c 1000)
[ -z "$err" ] || printf '\\003%s' "$err" ) 3>&1"""


def _by_content(search: Search) -> tuple[str, str, str]:
    marked = "tr '\\000' '\\002'"
    python = _python(search, *_alternatives(search.glob))
    return f"{_ripgrep(search)} | {marked}", f"{_grep(search)} | {marked}", f"{python} | {marked}"


def _ripgrep(search: Search) -> str:
    chosen = ""
    if "/" in search.glob:
        chosen = f"-g {shlex.quote(search.glob)}"
    elif search.glob:  # a type, unlike a glob, does not bring back what .gitignore leaves out
        chosen = f"--type wanted --type-add {shlex.quote(f'wanted:{search.glob}')}"
    return (
        f"{_RG} --no-heading --no-context-separator -nH -C{search.context} {chosen} -g '!.git' "
        f'-e {shlex.quote(search.pattern)} -- "$p"'
    )


def _grep(search: Search) -> str:
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


def _by_name(search: Search) -> tuple[str, str, str]:
    pattern = shlex.quote(name_regex(search.pattern))
    swap = "tr '\\n\\000' '\\001\\n'"
    ripgrep = f"{_RG} --files -g '!.git' -- \"$p\" | {swap} | rg --no-config -i -e {pattern}"
    every = 'find "$p" -name .git -prune -o ! -type d -print0 2>/dev/null'
    grep = f"{every} | {swap} | grep -aiE -e {pattern} | sort"
    return ripgrep, grep, _python(search)


def _python(search: Search, *globs: str) -> str:
    pattern = search.pattern if search.kind == "content" else name_regex(search.pattern)
    words = ["python3", "-c", source("search"), search.kind, pattern]
    last = shlex.join([str(search.context), *globs])
    return f'{shlex.join(words)} "$p" {last}'


def name_regex(pattern: str) -> str:
    """A glob, or a piece of a name, as a regular expression that every searcher understands."""
    if not re.search(r"[*?\[]", pattern):
        tail = "[^/]*$" if "/" not in pattern else ""
        return _escaped(pattern) + tail
    pieces = re.split(r"(\*\*/?|\*|\?|\[[^\]/]+\])", pattern)
    shown = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(
        shown.get(piece) or (_class(piece) if k % 2 else _escaped(piece))
        for k, piece in enumerate(pieces)
    )
    return f"(^|/){regex}$"


def _class(piece: str) -> str:
    return "[^" + piece[2:] if piece.startswith("[!") else piece


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
