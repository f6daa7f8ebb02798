"""JavaScript, Ruby, Perl, PHP and the rest: fewer words than Python's tree, and the same sums."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.signs import signs

_CODE = {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".pm", ".php", ".lua", ".go",
         ".rs", ".java", ".c", ".cpp", ".cs", ".swift", ".kt", ".r", ".jl", ".ps1", ".html", ".svg",
         ".htm", ".json", ".ipynb"}  # fmt: skip


def look_at_other_code(path: str, text: str) -> Iterator[Finding]:
    if PurePosixPath(path).suffix.casefold() not in _CODE:
        return
    for sign in signs("other", "signs"):
        if found := sign.pattern.search(text):
            yield _found(path, text.count("\n", 0, found.start()) + 1, sign.cause)
    secret = signs("other", "secret")[0].pattern.search(text)
    if secret and signs("other", "network")[0].pattern.search(text):
        line = text.count("\n", 0, secret.start()) + 1
        yield _found(path, line, f"it reads {secret[0]!r} and talks to the network")


def _found(path: str, line: int, cause: str) -> Finding:
    return Finding(kind="shell", file=path, line=line, cause=cause)
