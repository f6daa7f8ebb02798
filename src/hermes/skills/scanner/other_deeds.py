"""JavaScript, Ruby, Perl, PHP, Go and the rest, read for what they can do."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.deed import Deed, host_in
from hermes.skills.scanner.signs import signs

_CODE = {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".rb", ".pl", ".pm", ".php", ".lua", ".go",
         ".rs", ".java", ".c", ".cpp", ".cs", ".swift", ".kt", ".r", ".jl", ".ps1",
         ".awk", ".groovy"}  # fmt: skip
_KINDS = ("dynamic", "environment", "stays", "delete", "trust", "spies", "credentials", "agent",
          "workflows", "listens")  # fmt: skip
_SENDS = re.compile(r"\b(?:post|put|patch|write|send|body|data)\b", re.IGNORECASE)


def other_deeds(path: str, text: str) -> Iterator[Deed]:
    if PurePosixPath(path).suffix.casefold() not in _CODE:
        return
    for kind in _KINDS:
        if found := signs("other_deeds", kind)[0].pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Deed(kind=kind, file=path, line=line, detail=" ".join(found[0].split()))
    talks = signs("other", "network")[0].pattern.search(text)
    if talks:
        sends = bool(_SENDS.search(text))
        hosts = {host_in(each[0]) for each in re.finditer(r"https?://[^\s\"'`]+", text)} or {""}
        hosts |= {
            each[1].casefold()
            for each in re.finditer(r"host(?:name)?\s*[:=]\s*[\"']([\w.-]+\.\w+)", text)
        }
        for host in sorted(hosts):
            line = text.count("\n", 0, talks.start()) + 1
            yield Deed(
                kind="network", file=path, line=line, detail=talks[0], host=host, sends=sends
            )
