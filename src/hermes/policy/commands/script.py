"""Analyses one shell text: parses it and calls the handler for each kind of node."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from hermes.policy.commands import control_flow, simple_commands, syntax
from hermes.policy.commands.assignments import assigned_names, find_evaluated_text, unknown_operand
from hermes.policy.commands.calls import ProgramCall, TooManyCommands
from hermes.policy.commands.placeholders import ANY_WORD, SYSTEM_NAME
from hermes.policy.commands.scope import ShellScope
from hermes.policy.commands.syntax import Node, ShellSyntaxError
from hermes.policy.commands.tables import variable_decides_code
from hermes.policy.commands.words import WordFields, WordReader

_NODE_HANDLERS = {**control_flow.CONTROL_FLOW_HANDLERS, **simple_commands.SIMPLE_COMMAND_HANDLERS}
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_EXPANSIONS = frozenset({*_SUBSTITUTIONS, "arithmetic_expansion", "expansion"})
_DEFAULT_ASSIGNMENT = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[^]]*\])?:?=", re.A)
_MAX_DEPTH = 24
_MAX_NODES = 6000
_TWO_HERE_DOCUMENTS = re.compile(rb"(?<!<)<<-?[^<\n][^\n]*?(?<!<)<<(?!<)")


class CommandRecorder(Protocol):
    """Analyses commands and keeps the results; implemented by the walker."""

    captures: int
    """How many substitutions, whose output becomes words, are around what is analysed."""

    def run(self, call: ProgramCall) -> str: ...
    def keep(self, call: ProgramCall) -> None: ...
    def shell(self, call: ProgramCall, text: str, scope: ShellScope) -> str: ...
    def problem(self, why: str) -> None: ...


class ShellScript:
    """Implements `ScriptWalk` for one text. `around` is the context of each command in it."""

    def __init__(
        self,
        text: bytes,
        recorder: CommandRecorder,
        around: Callable[[Node, ShellScope], ProgramCall],
    ) -> None:
        self.text = text
        self.letters = text.decode("latin-1")
        self.recorder = recorder
        self.call = around
        self.run = recorder.run
        self.keep = recorder.keep
        self.root = syntax.parse(text)
        self.depth = 0

    def walk(self, scope: ShellScope, stdin: str | None) -> str:
        if _TWO_HERE_DOCUMENTS.search(self.text):
            self.recorder.problem("two here-documents on one line, which the parser mixes up")
        if self.root.descendant_count > _MAX_NODES:
            raise TooManyCommands("more shell than anyone would read before saying yes")
        if self.root.has_error:
            self.recorder.problem("the text is not shell that the parser understands")
        if hidden := syntax.find_hidden_substitution(self.root, self.text):
            self.recorder.problem(f"a command inside {hidden!r}, which the parser takes for text")
        outside = self.text[: self.root.start_byte] + self.text[self.root.end_byte :]
        if not syntax.is_blank(outside):
            self.recorder.problem(f"the parser skipped {outside[:40]!r}")
        return self.statement(self.root, scope, stdin)

    @cached_property
    def nodes(self) -> dict[int, Node]:
        """Every expansion by its start position."""
        if not any(mark in self.text for mark in (b"$", b"`", b"<(", b">(")):
            return {}
        found: dict[int, Node] = {}
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.type in _EXPANSIONS:
                # In quotes, the parser includes blanks before an expansion in its node.
                start = node.start_byte
                while self.text[start : start + 1].isspace():
                    start += 1
                found[start] = node
            waiting.extend(node.children)
        return found

    def children(self, node: Node) -> list[Node]:
        return syntax.children(node, self.text)

    def statement(self, node: Node, scope: ShellScope, stdin: str | None) -> str:
        step = _NODE_HANDLERS.get(node.type)
        if self.depth > _MAX_DEPTH:
            raise TooManyCommands(f"more than {_MAX_DEPTH} levels of nesting")
        self.depth += 1
        try:
            if step is None:
                return self._stray(node, scope, stdin)
            return step(self, node, scope, stdin)
        except ShellSyntaxError as gap:
            self.recorder.problem(str(gap))
            return self._stray(node, scope, stdin)
        finally:
            self.depth -= 1

    def _stray(self, node: Node, scope: ShellScope, stdin: str | None) -> str:
        """An unexpected node: its effects are unknown, but its parts are analysed."""
        self.recorder.problem(f"cannot tell what this does: {node.type.lower()}")
        for child in node.children:
            if child.type in _NODE_HANDLERS:
                self.statement(child, scope, stdin)
            elif child.type in _SUBSTITUTIONS and self._parts(child):
                self._output(child, scope)
            elif child.children:
                self.depth += 1
                if self.depth <= _MAX_DEPTH:
                    self._stray(child, scope, stdin)
                self.depth -= 1
        return ANY_WORD

    def _parts(self, node: Node) -> bool:
        try:
            return bool(self.children(node))
        except ShellSyntaxError:
            return False

    def _reader(self, scope: ShellScope) -> WordReader:
        return WordReader(self.letters, scope, self.nodes, lambda node: self._output(node, scope))

    def fields(self, node: Node, scope: ShellScope) -> WordFields:
        return self._reader(scope).fields(node.start_byte, node.end_byte)

    def value(self, node: Node, scope: ShellScope) -> str:
        return self._reader(scope).value(node.start_byte, node.end_byte)

    def body(self, node: Node, scope: ShellScope) -> str:
        return self._reader(scope).body(node.start_byte, node.end_byte)

    def substitutions(self, node: Node, scope: ShellScope) -> list[str]:
        """Analyses the commands inside, or the substitution itself; returns their outputs."""
        outputs = []
        inner = syntax.descendants(node, _SUBSTITUTIONS | {"arithmetic_expansion"})
        for each in [node] if node.type in _SUBSTITUTIONS else inner:
            printed = self._output(each, scope).rstrip("\n")
            if each.type in _SUBSTITUTIONS:
                outputs.append(printed)
        text = self.letters[node.start_byte : node.end_byte]
        if unknown := find_evaluated_text(text, scope, outputs):
            call = self.call(node, scope)
            call.dynamic(f"{unknown}, which the shell would run as code")
            self.keep(call)
        return outputs

    def arithmetic(self, node: Node, scope: ShellScope) -> None:
        """`$((…))` and `((…))`: numbers are harmless, other text is evaluated as code."""
        outputs = self.substitutions(node, scope)
        text = self.letters[node.start_byte : node.end_byte]
        if unknown := unknown_operand(text, scope, outputs):
            call = self.call(node, scope)
            call.dynamic(f"arithmetic over {unknown}, which the shell would run as code")
            self.keep(call)
        scope.variables.update(dict.fromkeys(assigned_names(text), SYSTEM_NAME))

    def _output(self, node: Node, scope: ShellScope) -> str:
        """The output of a substitution."""
        if node.type == "arithmetic_expansion":
            self.arithmetic(node, scope)
            return ""
        if node.type == "expansion":
            self.substitutions(node, scope)
            self._default(node, scope)
            return ""
        text = self.text[node.start_byte : node.end_byte].lstrip()
        if text.startswith((b"<(", b">(")):
            return self._substituted(node, text, scope.copy())
        self.recorder.captures += 1
        try:
            return self._substituted(node, text, scope.copy())
        finally:
            self.recorder.captures -= 1

    def _substituted(self, node: Node, text: bytes, inner: ShellScope) -> str:
        if text.startswith(b"`"):
            return self._backticks(node, text, inner)
        stdin = ANY_WORD if text.startswith(b">(") else None
        printed = []
        for child in self.children(node)[1:-1]:
            if child.type == "file_redirect":
                call = self.call(child, inner)
                simple_commands.apply_redirects(
                    call, simple_commands.collect_redirects(self, [child], inner)
                )
                self.keep(call)
                printed.append(ANY_WORD)
            elif child.type not in (";", "&", "\n", "comment"):
                printed.append(self.statement(child, inner, stdin))
        return "".join(printed)[:4096]

    def _default(self, node: Node, scope: ShellScope) -> None:
        """`${name:=value}` sets the variable when it has no value."""
        found = _DEFAULT_ASSIGNMENT.match(self.letters[node.start_byte : node.end_byte].lstrip())
        if found and (variable_decides_code(found[1]) or found[1] in scope.integers):
            call = self.call(node, scope)
            call.dynamic(f"{found[1]} decides which code runs, or is an integer")
            self.keep(call)

    def _backticks(self, node: Node, text: bytes, scope: ShellScope) -> str:
        """A backtick substitution, in which backslashes are removed before it is read."""
        inner = text[1:-1].decode("utf-8", "surrogateescape")
        for mark in ("\\", "`", "$"):
            inner = inner.replace("\\" + mark, mark)
        return self.recorder.shell(self.call(node, scope), inner, scope)
