"""A tool that is a command template: `{{name}}` becomes the value, quoted as one word.

Quoting protects only where the shell reads words, so a slot inside quotes, a comment, a
here-document, arithmetic and the like is refused when the template is read, not when a hostile
value comes.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.core.errors import ToolError
from hermes.core.messages import ToolDefinition, ToolSpec, Value
from hermes.core.protocols import ToolContext
from hermes.tools.connected_command import CONNECTION, CommandConnection
from hermes.tools.declare import ToolRequirements, check_arguments
from hermes.tools.parameters import CommandParameter, build_arguments_struct, check_pattern

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_WORD_START = " \t\n;&|()"
_REPARSING_PROGRAMS = {"eval", "let", "ssh", "su", "watch", "parallel", "xargs", "-c"}


class CommandTemplateError(Exception):
    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


class TemplateSlot(Value, frozen=True):
    name: str
    starts_word: bool
    """True when a value that begins with a dash would be taken for an option here."""


TemplatePart = str | TemplateSlot


def parse_template(text: str) -> tuple[TemplatePart, ...]:
    """Raises `CommandTemplateError` where a value could be read as anything but a word."""
    parts: list[TemplatePart] = []
    at = done = 0
    quote = ""
    guarded = bool(_SLOT.search(text))
    while at < len(text):
        match = _SLOT.match(text, at)
        if match is None:
            if guarded:
                _refuse_risky(text, at, quote)
            quote, at = _advance(text, at, quote)
            continue
        _refuse_slot(text, at, quote)
        before = text[done:at]
        starts_word = (not text[:at] or text[at - 1] in _WORD_START) and " -- " not in text[:at]
        parts += [before, TemplateSlot(match[1], starts_word)]
        at = done = match.end()
    if quote not in ("", "#"):
        raise CommandTemplateError(len(text), f"a {quote} is never closed")
    return (*parts, text[done:])


def render_command(parts: Sequence[TemplatePart], words: Mapping[str, str]) -> str:
    """The command; `words` are already quoted for the shell."""
    return "".join(part if isinstance(part, str) else words[part.name] for part in parts)


def reparsing_program(parts: Sequence[TemplatePart]) -> str:
    """A program in the command that parses its arguments as code again; empty when none does."""
    literal = " ".join(part for part in parts if isinstance(part, str))
    return next(
        (word for word in re.split(r"[\s;&|()]+", literal) if word in _REPARSING_PROGRAMS), ""
    )


def quote_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return shlex.quote(str(value))


def _advance(text: str, at: int, quote: str) -> tuple[str, int]:
    """Advances by one character of the shell's grammar: the quote that is then open, and the
    position."""
    char = text[at]
    if quote == "#":
        return ("" if char == "\n" else quote), at + 1
    if quote == "'":
        return ("" if char == "'" else quote), at + 1
    if char == "\\":
        return quote, at + 2
    if quote:
        return ("" if char == quote[-1] else quote), at + 1
    if char == "'":
        return ("$'" if text[at - 1 : at] == "$" else "'"), at + 1
    if char in '"`':
        return char, at + 1
    comment = char == "#" and (at == 0 or text[at - 1] in _WORD_START)
    return ("#" if comment else ""), at + 1


def _refuse_risky(text: str, at: int, quote: str) -> None:
    """Refuse syntax that this simple reading of the shell's grammar could misread."""
    rest = text[at:]
    if rest.startswith("{{"):
        raise CommandTemplateError(at, "{{ begins a parameter: write {{name}}")
    if rest.startswith("\\{{"):
        raise CommandTemplateError(at, "a backslash before {{ would undo the quoting of the value")
    if quote == '"' and (rest[0] == "`" or rest.startswith("$(")):
        raise CommandTemplateError(
            at, "a command inside double quotes cannot be checked: put it into a variable first"
        )
    if quote == '"' and re.match(r"\$\{[^}]*[\"']", rest):
        raise CommandTemplateError(at, "quotes inside ${…} inside quotes cannot be checked")
    if quote:
        return
    for risky, why in (("((", "arithmetic"), ("[[", "[[ … ]]")):
        if rest.startswith(risky):
            raise CommandTemplateError(
                at, f"{why} would run code hidden in a value: use [ … ] or expr"
            )
    if rest.startswith("<<") and not rest.startswith("<<<") and text[at - 1 : at] != "<":
        raise CommandTemplateError(at, "a here-document does not protect values: use printf | …")


def _refuse_slot(text: str, at: int, quote: str) -> None:
    if quote == "#":
        raise CommandTemplateError(at, "a value inside a comment could end it")
    if quote:
        raise CommandTemplateError(
            at, f"a value inside {quote} is not safe: write it bare, it is quoted for you"
        )
    if text[at - 1 : at] in ("$", "\\") and at:
        raise CommandTemplateError(at, f"{text[at - 1]} before a value would change its quoting")


class CommandTool:
    def __init__(
        self,
        spec: ToolSpec,
        parameters: Mapping[str, CommandParameter],
        command: tuple[TemplatePart, ...],
        *,
        needs: ToolRequirements,
        timeout: float,
        connections: Mapping[str, CommandConnection] | None = None,
    ) -> None:
        """`connections`: the options that `{{connection}}` stands for, by name."""
        self.spec = spec
        self.needs = needs
        self.definition = ToolDefinition()
        self._parameters = parameters
        self._arguments = build_arguments_struct(spec.name, parameters)
        self._command = command
        self._timeout = timeout
        self._connections = connections

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        command = self.command(arguments)
        result = await context.environment.run(command, timeout=self._timeout)
        if result.timed_out:
            raise ToolError(f"{result.output}\n[stopped after {self._timeout:g} seconds]".strip())
        ending = f"\n[exit code {result.exit_code}]" if result.exit_code else ""
        return f"{result.output.rstrip()}{ending}".strip() or "[no output]"

    def validate(self, arguments: Mapping[str, Any]) -> str:
        return self.command(arguments)

    def command(self, arguments: Mapping[str, Any]) -> str:
        """The command that would run. Raises `ToolError` for a value that does not fit."""
        checked = check_arguments(self.spec.name, self._arguments, arguments)
        slots = {part.name: part for part in self._command if isinstance(part, TemplateSlot)}
        words = {
            name: _parameter_word(name, self._parameters[name], slot, getattr(checked, name))
            for name, slot in slots.items()
            if name != CONNECTION or self._connections is None
        }
        if self._connections is not None:
            known = self._connections.get(getattr(checked, CONNECTION, ""))
            words[CONNECTION] = known.options if known else ""
        return render_command(self._command, words)


def _parameter_word(name: str, parameter: CommandParameter, slot: TemplateSlot, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) and parameter.flag:
        return parameter.flag if value else ""
    values = value if isinstance(value, list) else [value]
    for each in values:
        _check_text(name, parameter, slot, each)
    flag = f"{parameter.flag} " if parameter.flag else ""
    return " ".join(flag + quote_value(each) for each in values)


def _check_text(name: str, parameter: CommandParameter, slot: TemplateSlot, value: object) -> None:
    check_pattern(name, parameter, value)
    if not isinstance(value, str):
        return
    optional = slot.starts_word and not parameter.flag and not parameter.allow_dash
    if optional and value.startswith("-") and not parameter.enum:
        raise ToolError(f"{name} must not begin with a dash: it would be taken for an option")
