"""What the parts of the walk need of each other."""

from collections.abc import Callable
from typing import Protocol

from hermes.policy.commands.calls import Call
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.syntax import Node
from hermes.policy.commands.words import Fields


class TooMuch(Exception):
    """The text holds more commands than anyone would read before saying yes."""


class Walk(Protocol):
    """One text being walked."""

    text: bytes

    def statement(self, node: Node, scope: Scope, stdin: str | None) -> str:
        """Judge a statement; gives what it would print."""
        ...

    def children(self, node: Node) -> list[Node]: ...
    def fields(self, node: Node, scope: Scope) -> Fields: ...
    def value(self, node: Node, scope: Scope) -> str: ...
    def body(self, node: Node, scope: Scope) -> str: ...
    def substitutions(self, node: Node, scope: Scope) -> list[str]:
        """Judge every substitution below a node, and give what each would print."""
        ...

    def arithmetic(self, node: Node, scope: Scope) -> None:
        """Judge a node whose text the shell evaluates as arithmetic."""
        ...

    def call(self, node: Node, scope: Scope) -> Call:
        """A fresh command at a place of the text, with what surrounds the text sticking to it."""
        ...

    def run(self, call: Call) -> str:
        """Judge a command and keep the result."""
        ...

    def keep(self, call: Call) -> None:
        """Keep a result as it is."""
        ...


Step = Callable[[Walk, Node, Scope, str | None], str]
