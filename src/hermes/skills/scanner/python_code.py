"""Python in a foreign skill: what it hides, and what it runs that nobody can read."""

import ast
import re
from collections.abc import Callable, Iterator

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.python_folding import Folder, names_in
from hermes.skills.scanner.python_sums import NETWORK, Sums
from hermes.skills.scanner.python_tricks import (
    dotted,
    everything,
    is_trick,
    spelled_in_numbers,
    unpacks,
)
from hermes.skills.scanner.signs import signs

LARGEST = 512 << 10
_LOADERS = {"pickle", "cPickle", "dill", "marshal", "cloudpickle", "shelve", "jsonpickle"}
_RUNS = {"exec", "eval", "compile", "__import__", "execfile"}
_DEEP = {"__subclasses__", "__globals__", "__builtins__", "__mro__", "__bases__", "__code__",
         "f_globals", "f_builtins", "gi_frame", "__getattribute__", "__loader__"}  # fmt: skip
_COMMANDS = {
    "system", "popen", "run", "call", "Popen", "check_output", "check_call", "spawn", "getoutput",
    "getstatusoutput", "create_subprocess_shell", "create_subprocess_exec",
}  # fmt: skip
Shell = Callable[[str, int], Iterator[Finding]]
"""Looks at a command that Python would hand to a shell."""


def look_at_python(file: str, text: str, shell: Shell) -> Iterator[Finding]:
    if len(text) > LARGEST:
        yield _found(file, 1, f"{len(text):,} characters of code are too many to be read")
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield _found(file, 1, f"Python that cannot be read: {error}", blocks=False)
        return
    try:
        yield from _Look(file, tree, shell).findings()
    except RecursionError:
        yield _found(file, 1, "code nested too deeply to be read")


class _Look:
    """One file: what it imports, names, calls and writes, gathered once and then weighed."""

    def __init__(self, file: str, tree: ast.Module, shell: Shell) -> None:
        self._file, self._tree, self._shell = file, tree, shell
        self._names = names_in(tree)
        self._sums = Sums(file, tree)

    def findings(self) -> Iterator[Finding]:
        for call in self._sums.calls:
            yield from self._call(call)
        for node in ast.walk(self._tree):
            yield from self._deep(node)
        yield from self._folded()
        yield from self._sums.findings()

    def _call(self, call: ast.Call) -> Iterator[Finding]:
        name = dotted(call.func)
        last = name.rpartition(".")[2]
        first = call.args[0] if call.args else None
        if last in ("exec", "eval") and first is not None and unpacks(first):
            yield self._at(call, f"{last} of what was packed away or fetched")
        elif name in _RUNS or name.startswith("builtins."):
            yield from self._run(call, name, first)
        elif last in ("import_module", "getattr", "setattr"):
            wanted = first if last == "import_module" else next(iter(call.args[1:]), None)
            owner = dotted(first) if first is not None else ""
            if last == "getattr" and owner in ("builtins", "__builtins__"):
                yield self._at(call, "builtins reached by name")
            elif wanted is not None and self._tricky(wanted):
                yield self._at(call, f"{last} with a name that is made up on the way")
        elif last in ("loads", "load") and name.split(".")[0] in _LOADERS:
            packed = first is not None and (self._fold(first) is not None or unpacks(first))
            yield self._at(
                call, f"{name} runs what is in its data", blocks=packed or self._sums.network
            )
        elif last == "rmtree" and first is not None and everything(first, self._fold(first)):
            yield self._at(call, "everything of a person, or of the machine, would be removed")
        yield from self._command(call, name, last, first)

    def _run(self, call: ast.Call, name: str, first: ast.expr | None) -> Iterator[Finding]:
        if first is None or name == "compile":
            return
        if isinstance(first, ast.Constant):
            if name == "__import__" and str(first.value).split(".")[0] in NETWORK | {
                "os",
                "subprocess",
            }:
                yield self._at(call, f"__import__({first.value!r}): an import that hides")
            return
        listed = name == "__import__" and isinstance(first, ast.Name) and self._is_listed(first)
        hidden = self._tricky(first) or unpacks(first) or name in ("exec", "__import__")
        hidden = hidden and not listed
        yield self._at(
            call, f"{name} of text that nobody has seen", blocks=hidden or self._sums.network
        )

    def _is_listed(self, wanted: ast.Name) -> bool:
        """Only names that stand in a list of the file's own get that far."""
        return any(
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Compare)
            and isinstance(node.test.ops[0], ast.In)
            and isinstance(node.test.comparators[0], ast.Name | ast.Set | ast.Tuple | ast.List)
            and any(isinstance(e, ast.Name) and e.id == wanted.id for e in ast.walk(node.test.left))
            for node in ast.walk(self._tree)
        )

    def _command(
        self, call: ast.Call, name: str, last: str, first: ast.expr | None
    ) -> Iterator[Finding]:
        if first is None or not re.match(
            r"(?:os|subprocess|commands|pty|asyncio)\.|popen|Popen|system", name
        ):
            return
        if last in _COMMANDS:
            words = self._fold(first)
            text = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
            if self._tricky(first):
                yield self._at(call, "a command that is put together so that it cannot be read")
            yield from self._shell(text, call.lineno)

    def _deep(self, node: ast.AST) -> Iterator[Finding]:
        if isinstance(node, ast.Attribute) and node.attr in _DEEP:
            yield self._at(node, f"{node.attr} reaches behind the language")
        elif isinstance(node, ast.Subscript):
            value = node.value
            called = dotted(value.func) if isinstance(value, ast.Call) else dotted(value)
            behind = called in ("vars", "globals", "locals", "__builtins__", "sys.modules")
            if behind and (self._tricky(node.slice) or called == "__builtins__"):
                yield self._at(node, f"{called}[…] with a name that is made up on the way")
            elif called == "vars" and "builtins" in ast.dump(value):
                yield self._at(node, "builtins reached by name")

    def _folded(self) -> Iterator[Finding]:
        """Strings that say something else once their tricks are undone."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call | ast.Subscript | ast.BinOp) and self._tricky(node):
                value = self._fold(node)
                text = value.decode(errors="replace") if isinstance(value, bytes) else value
                numbered = isinstance(text, str) and spelled_in_numbers(node) and text.isalpha()
                if isinstance(text, str) and (numbered or _pattern("sensitive").search(text)):
                    yield self._at(node, f"a string hides {text[:60]!r}")
                    return

    def _fold(self, node: ast.AST) -> object:
        return Folder(self._names).fold(node)

    def _tricky(self, node: ast.AST) -> bool:
        """A name or a text that somebody took pains to hide."""
        return is_trick(node) or (isinstance(node, ast.Name) and self._was_tricky(node.id))

    def _was_tricky(self, name: str) -> bool:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and any(
                getattr(t, "id", "") == name for t in node.targets
            ):
                return is_trick(node.value)
        return False

    def _at(self, where: ast.AST | int, cause: str, *, blocks: bool = True) -> Finding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return _found(self._file, line, cause, blocks=blocks)


def _pattern(table: str) -> re.Pattern[str]:
    return signs("python", table)[0].pattern


def _found(file: str, line: int, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="python", file=file, line=line, cause=cause, blocks=blocks)
