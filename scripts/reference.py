"""A hook for MkDocs: the parts of the reference that are nothing but the code's own words.

A page says `<!-- events -->` where the table of events belongs; nothing generated is committed.
"""

import inspect
from typing import Any

import msgspec

from hermes.cli import exits
from hermes.cli.commands import help_text
from hermes.core.events import KINDS
from hermes.core.events.happening import Happening


def events() -> str:
    lines = ["| kind | fields | |", "|---|---|---|"]
    common = {field.name for field in msgspec.structs.fields(Happening)}
    for kind, event in sorted(KINDS.items()):
        fields = [f"`{f.name}`" for f in msgspec.structs.fields(event) if f.name not in common]
        about = (inspect.cleandoc(event.__doc__ or "").partition("\n\n")[0]).replace("\n", " ")
        own = about if event.__doc__ != Happening.__doc__ else ""
        lines.append(f"| `{kind}` | {', '.join(fields)} | {own} |")
    return "\n".join(lines)


def commands() -> str:
    return f"```text\n{help_text().rstrip()}\n```"


def exit_codes() -> str:
    codes = {k: v for k, v in vars(exits).items() if k.isupper() and isinstance(v, int)}
    rows = [f"| {code} | {name.lower()} |" for name, code in codes.items()]
    return "\n".join(["| Exit code | |", "|---|---|", *rows])


PARTS = {"events": events, "commands": commands, "exit codes": exit_codes}


def on_page_markdown(markdown: str, **_: Any) -> str:
    for name, part in PARTS.items():
        if (mark := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(mark, part())
    return markdown
