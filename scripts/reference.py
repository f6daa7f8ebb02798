"""A MkDocs hook that generates parts of the reference pages from the code.

A page marks the position of a part with its name, for example `<!-- events -->`. Nothing generated
is committed.
"""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from hermes.cli import exit_codes
from hermes.cli.commands import help_text
from hermes.core.events import EVENT_TYPES
from hermes.core.events.base import BaseEvent
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_builder import ScenarioBuilder
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.settings.describe import field_docs, setting_values
from hermes.settings.schema import Settings
from hermes.settings.value_types import describe_type, section_type, struct_fields
from hermes.settings.variable_names import variables_for


def event_table() -> str:
    lines = ["| kind | fields | |", "|---|---|---|"]
    common = {field.name for field in msgspec.structs.fields(BaseEvent)}
    for kind, event in sorted(EVENT_TYPES.items()):
        fields = [f"`{f.name}`" for f in msgspec.structs.fields(event) if f.name not in common]
        about = (inspect.cleandoc(event.__doc__ or "").partition("\n\n")[0]).replace("\n", " ")
        own = about if event.__doc__ != BaseEvent.__doc__ else ""
        lines.append(f"| `{kind}` | {', '.join(fields)} | {own} |")
    return "\n".join(lines)


def command_list() -> str:
    return f"```text\n{help_text().rstrip()}\n```"


def exit_code_table() -> str:
    codes = {k: v for k, v in vars(exit_codes).items() if k.isupper() and isinstance(v, int)}
    rows = [f"| {code} | {name.lower()} |" for name, code in codes.items()]
    return "\n".join(["| Exit code | |", "|---|---|", *rows])


def setting_tables() -> str:
    """Every key of the configuration, section by section."""
    lines: list[str] = []
    defaults = setting_values(Settings())
    for section, field in struct_fields(Settings).items():
        lines += ["", f"## {section}", "", field_docs(Settings).get(section, ""), ""]
        lines += ["| key | type | default | meaning | variables |", "|---|---|---|---|---|"]
        for key, type_, default, about in _section_keys(section, field):
            shown = (
                f"`{json.dumps(default, ensure_ascii=False)}`" if default is not ... else "required"
            )
            own = key in defaults  # not an item of a list or of a mapping with free names
            names = ", ".join(f"`{name}`" for name in variables_for(key)) if own else ""
            cells = (f"`{key}`", describe_type(type_), shown, about, names)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def scenario_tables() -> str:
    """Every field of what a scenario draws, type by type, the outermost first."""
    kinds: list[type[msgspec.Struct]] = [Scenario, *scenario_types(ScenarioSpec)]
    lines: list[str] = []
    for kind in dict.fromkeys(kinds):
        about = inspect.cleandoc(kind.__doc__ or "")
        lines += ["", f"## {kind.__name__}", "", about, ""]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        for field in msgspec.structs.fields(kind):
            shown = "required" if field.required else f"`{field_default(field)!r}`"
            type_ = f"`{type_name(field.type)}`"
            cells = (f"`{field.name}`", type_, shown, field_docs(kind).get(field.name, ""))
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(lines)


def scenario_types(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """A type and all that its fields contain."""
    yield kind
    for field in msgspec.structs.fields(kind):
        for inner in _struct_types(field.type):
            yield from scenario_types(inner)


def _struct_types(type_: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        yield type_
    for argument in get_args(type_):
        yield from _struct_types(argument)


def type_name(type_: Any) -> str:
    if isinstance(type_, type) and not get_args(type_):
        return type_.__name__
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(type_))


def field_default(field: msgspec.structs.FieldInfo) -> Any:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


def builder_table() -> str:
    """What a scenario calls in its function `draw`."""
    lines = ["| call | |", "|---|---|"]
    for name, method in inspect.getmembers(ScenarioBuilder, inspect.isfunction):
        if name.startswith("_") or name == "spec":
            continue
        about = inspect.cleandoc(method.__doc__ or "").partition("\n\n")[0]
        words = [
            f"{each.name}=" if each.kind is each.KEYWORD_ONLY else f"{each}".partition(":")[0]
            for each in list(inspect.signature(method).parameters.values())[1:]
        ]
        lines.append(f"| `build.{name}({', '.join(words)})` | {_cell(about)} |")
    return "\n".join(lines)


def _section_keys(
    section: str, field: msgspec.structs.FieldInfo
) -> Iterator[tuple[str, Any, Any, str]]:
    """The keys of a section, or of a mapping whose names people choose."""
    kind = section_type(field.type)
    if kind is not None:
        yield from _keys(kind, section)
        return
    yield section, field.type, _default(field), field_docs(Settings).get(section, "")
    for below in filter(None, map(section_type, get_args(field.type))):
        yield from _keys(below, f"{section}.NAME")


def _keys(kind: type[msgspec.Struct], above: str) -> Iterator[tuple[str, Any, Any, str]]:
    """Key, type, default (`...` without one) and meaning of everything in a section."""
    for name, field in struct_fields(kind).items():
        key, section = f"{above}.{name}", section_type(field.type)
        if section is not None:
            yield from _keys(section, key)
            continue
        yield key, field.type, _default(field), field_docs(kind).get(field.name, "")
        for below in filter(None, map(section_type, get_args(field.type))):
            listed = "[]" if describe_type(field.type) == "a list" else ".NAME"
            yield from _keys(below, key + listed)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return ... if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PARTS = {
    "events": event_table,
    "commands": command_list,
    "exit codes": exit_code_table,
    "settings": setting_tables,
    "scenario fields": scenario_tables,
    "scenario builder": builder_table,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    for name, part in PARTS.items():
        if (mark := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(mark, part())
    return markdown
