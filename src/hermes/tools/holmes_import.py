"""Translates toolsets of HolmesGPT into declared tools, or says why one cannot be translated.

A value stays one word here, so a template that puts it into code or into a longer quoted text is
refused. What a tool may do is not taken over: the policy reads its command.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.core.messages import Risk, Value
from hermes.plumbing.yaml_document import load_yaml
from hermes.tools.command_tool import CommandTemplateError, parse_template, reparsing_program

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_QUOTED_SLOT = re.compile(r"""(["'])(\{\{\s*[A-Za-z_]\w*\s*\}\})\1""")
_OPTIONAL_PART = re.compile(
    r"\{%-?\s*if\s+([A-Za-z_]\w*)\s*-?%\}((?:(?!\{%).)*?)\{%-?\s*endif\s*-?%\}", re.DOTALL
)
_FLAG_WITH_VALUE = re.compile(r"\s*(--?[\w-]+)(?:\s+|=)(?:\{\{\s*([A-Za-z_]\w*)\s*\}\})\s*")
_FLAG_ALONE = re.compile(r"\s*(--?[\w-]+)\s*")
_VALUE_ALONE = re.compile(r"\s*\{\{\s*([A-Za-z_]\w*)\s*\}\}\s*")
_DEFAULTED_SLOT = re.compile(
    r"""\{\{\s*([A-Za-z_]\w*)\s*\|\s*default\(\s*(["'])([^"']+)\2\s*\)\s*\}\}"""
)
_SHEBANG = re.compile(r"\A\s*#![^\n]*\n")
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class TranslationError(Exception):
    """The tool cannot be translated; the text says why."""


class TranslatedTool(Value, kw_only=True, frozen=True):
    name: str
    description: str
    command: str
    parameters: dict[str, dict[str, Any]] = {}
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    risk: Risk = Risk.READ


class Translation(Value, frozen=True):
    tools: tuple[TranslatedTool, ...]
    refused: tuple[tuple[str, str], ...]
    """The name of each tool that cannot be translated, and why."""


def translate_toolsets(text: str, file: str) -> Translation:
    """Raises `YamlFileError` for what is no YAML, `TranslationError` for a file of another kind."""
    data = load_yaml(text, file).data
    toolsets = data.get("toolsets") if isinstance(data, Mapping) else None
    if isinstance(toolsets, Mapping):
        toolsets = list(toolsets.values())
    if not isinstance(toolsets, list):
        raise TranslationError(f"{file} has no `toolsets:`; is it a file of HolmesGPT?")
    tools: dict[str, TranslatedTool] = {}
    refused: list[tuple[str, str]] = []
    for toolset in toolsets:
        programs, variables = _prerequisites(toolset)
        for given in _tools_of(toolset):
            name = re.sub(r"\W", "_", str(given.get("name", ""))).lower()
            try:
                if name in tools:
                    raise TranslationError("there is a tool of this name already")
                tools[name] = _translate(name, given, programs, variables)
            except TranslationError as error:
                refused.append((name or "?", str(error)))
    return Translation(tuple(tools.values()), tuple(refused))


def render_tools(translation: Translation, source: str) -> str:
    """The tools as a YAML file that people can read and edit."""
    lines = [f"# Translated from {source}. The policy reads each command before it runs."]
    for tool in translation.tools:
        lines += [
            f"- name: {tool.name}",
            f"  description: {json.dumps(tool.description, ensure_ascii=False)}",
            f"  risk: {tool.risk}",
            f"  command: {json.dumps(tool.command, ensure_ascii=False)}",
        ]
        if tool.parameters:
            lines.append("  parameters:")
            for name, each in tool.parameters.items():
                lines.append(f"    {name}: {json.dumps(each)}")
        if tool.programs or tool.variables:
            needs = {"programs": tool.programs, "variables": tool.variables}
            lines.append(f"  needs: {json.dumps(needs)}")
    return "\n".join(lines) + "\n"


def _tools_of(toolset: Any) -> Iterator[Mapping[str, Any]]:
    tools = toolset.get("tools") if isinstance(toolset, Mapping) else None
    yield from (each for each in tools or () if isinstance(each, Mapping))


def _prerequisites(toolset: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    programs, variables = list[str](), list[str]()
    for each in (toolset.get("prerequisites") or ()) if isinstance(toolset, Mapping) else ():
        if not isinstance(each, Mapping):
            continue
        if words := str(each.get("command") or "").split():
            programs.append(words[0])
        variables += [str(name) for name in each.get("env") or ()]
    return tuple(programs), tuple(variables)


def _translate(
    name: str, given: Mapping[str, Any], programs: tuple[str, ...], variables: tuple[str, ...]
) -> TranslatedTool:
    if not _TOOL_NAME.fullmatch(name):
        raise TranslationError("its name has no letters")
    command = given.get("command") or given.get("script")
    if not isinstance(command, str):
        raise TranslationError("it has neither a command nor a script")
    parameters: dict[str, dict[str, Any]] = {}
    text = _OPTIONAL_PART.sub(
        lambda found: _optional_part(found, parameters), _SHEBANG.sub("", command).strip()
    )
    if "{%" in text or "{#" in text:
        raise TranslationError("a condition or loop around more than one option")
    for slot, _, value in _DEFAULTED_SLOT.findall(text):
        parameters.setdefault(slot.lower(), {"default": value})
    text = _DEFAULTED_SLOT.sub(r"{{\1}}", text)
    text = _QUOTED_SLOT.sub(r"\2", text)  # our values are quoted already
    for slot in _SLOT.findall(text):
        parameters.setdefault(slot.lower(), {})
    text = _SLOT.sub(lambda slot: f"{{{{{slot[1].lower()}}}}}", text)
    if "{{" in _SLOT.sub("", text):
        raise TranslationError("a value with a filter")
    try:
        parts = parse_template(text)
    except CommandTemplateError as error:
        raise TranslationError(str(error)) from error
    plain = [each for each, described in parameters.items() if "flag" not in described]
    if plain and (program := reparsing_program(parts)):
        raise TranslationError(f"{program} reads its words as code once more, also {plain[0]}")
    return TranslatedTool(
        name=name,
        description=" ".join(str(given.get("description") or name).split()),
        command=text,
        parameters=parameters,
        programs=programs,
        variables=variables,
    )


def _optional_part(found: re.Match[str], parameters: dict[str, dict[str, Any]]) -> str:
    """An option that is left out when its value is not given."""
    condition, inner = found[1].lower(), _QUOTED_SLOT.sub(r"\2", found[2])
    described: dict[str, Any] = {"required": False}
    if valued := _FLAG_WITH_VALUE.fullmatch(inner):
        named, described["flag"] = valued[2].lower(), valued[1]
    elif alone := _FLAG_ALONE.fullmatch(inner):
        named, described["flag"] = condition, alone[1]
        described["type"] = "boolean"
    elif value := _VALUE_ALONE.fullmatch(inner):
        named = value[1].lower()
    else:
        raise TranslationError("a condition around more than one option")
    if named != condition:
        raise TranslationError(f"the option of {named} depends on {condition}")
    parameters[named] = described
    return f" {{{{{named}}}}}"
