"""Code that is harmless here and now, and decides by who, where, when or how often to be other."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.clock import about_clock, is_fixed, recurs
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.purpose import Purpose
from hermes.skills.scanner.python_deeds import python_deeds
from hermes.skills.scanner.python_folding import names_in
from hermes.skills.scanner.python_tricks import dotted
from hermes.skills.scanner.shell_text import LARGEST, bounded
from hermes.skills.scanner.shell_unfolded import unlabelled
from hermes.skills.scanner.signs import signs

_TOLD = {
    "who": "it acts only for a certain machine, user or place",
    "watched": "it looks whether it is being watched, and acts otherwise then",
    "count": "it counts its uses, and acts otherwise after some",
    "when": "it waits for a certain day, and acts then",
    "again": "it waits for a certain weekday, month or hour, and acts then",
    "chance": "it acts by chance, so that a trial may not show it",
}
_HARM = {"system", "popen", "Popen", "exec", "eval", "rmtree", "unlink", "remove", "write_bytes",
         "urlopen", "connect", "execv", "execve", "execvp", "urandom", "post", "sendto", "sendall",
         "sendmail", "create_connection", "b64decode", "kill", "compile", "check_output",
         "run", "call", "check_call", "import_module", "__import__", "fork",
         "truncate"}  # fmt: skip
_WEIGHTY = frozenset({"network", "delete", "credentials", "environment", "stays", "dynamic",
                      "agent", "tracks", "access", "workflows", "unreadable", "hooks"})  # fmt: skip
_RUINS = {"rmtree", "unlink", "remove", "write_bytes", "truncate", "urandom", "exec", "eval",
          "b64decode", "system", "execv", "sendto", "kill"}  # fmt: skip
_SPOILS = re.compile(
    r"(?:walk|rglob|expanduser|home)\([\s\S]*\bopen\([^\n]*['\"](?:w|r\+|a)b?\+?['\"]"
)
"""Files of a person, opened one after the other to be written."""
_LEAVES = {"exit", "_exit", "quit"}
_STATE = re.compile(
    r"json\.loads?\(|\.read_text\(|\bopen\(|\.read\(|getmtime|pickle\.loads?\(|"
    r"\.get\(\s*['\"]\w*(?:runs?|counts?|counter|uses?|calls?|times|launches|starts)['\"]"
)


def look_at_conditions(path: str, text: str, purpose: Purpose) -> Iterator[Finding]:
    suffix = PurePosixPath(path).suffix.casefold()
    excused = purpose.owns_up_to("watched", shortly=True)
    if suffix in (".py", ".pyw") or re.match(r"#!.*\bpython", text):
        try:
            found = iter(list(_Decides(ast.parse(text), path, text).found()))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
    elif suffix not in (".md", ".markdown", ".rst", ".txt", ".csv", ".html"):
        found = _in_other(bounded(unlabelled(text[:LARGEST])))
    else:
        return
    for line, kind in found:
        if kind == "watched" and excused:
            continue
        if kind == "again" and purpose.owns_up_to("recurs"):
            continue
        yield Finding(kind="capability", file=path, line=line, cause=_TOLD[kind])
        return


class _Decides:
    """One module of Python: names that hold what was learnt about the place, and their use."""

    def __init__(self, tree: ast.Module, path: str, text: str) -> None:
        self._tree = tree
        self._known: dict[str, set[str]] = {}
        self._constants = names_in(tree)
        self._counted = {
            _base(node.target) for node in ast.walk(tree) if isinstance(node, ast.AugAssign)
        } | {
            _base(node.targets[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and re.search(r"\+ 1\b", ast.unparse(node.value))
        }
        self._deeds = [deed.line for deed in python_deeds(path, text) if deed.kind in _WEIGHTY]
        for _ in range(3):
            self._learn()

    def _learn(self) -> None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._note(_base(target), self._about(node.value))
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._note(_base(node.target), self._about(node.value))
            elif isinstance(node, ast.FunctionDef):
                for each in ast.walk(node):
                    if isinstance(each, ast.Return) and each.value is not None:
                        self._note(node.name, self._about(each.value))

    def _note(self, name: str, kinds: set[str]) -> None:
        if name and kinds:
            self._known.setdefault(name, set()).update(kinds)

    def _about(self, value: ast.AST) -> set[str]:
        text = ast.unparse(value)
        kinds = {
            kind
            for kind in ("who", "watched", "chance")
            if signs("conditions", kind)[0].pattern.search(text)
        }
        if _STATE.search(text):
            kinds.add("state")
        kinds |= about_clock(value, text)
        for node in ast.walk(value):
            if isinstance(node, ast.Name):
                kinds |= self._known.get(node.id, set())
        return kinds

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                body: list[ast.AST] = [node]
                if isinstance(node, ast.If) and _only_leaves(node.body):
                    body = [self._tree]
                yield from self._judged(node.test, node.lineno, body)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.BoolOp):
                yield from self._judged(node.value.values[0], node.lineno, [node.value])

    def _judged(self, test: ast.expr, line: int, body: list[ast.AST]) -> Iterator[tuple[int, str]]:
        kinds = self._about(test)
        if not kinds or not self._harmful(body):
            return
        if "watched" in kinds:
            yield line, "watched"
        elif "who" in kinds and _literal(test):
            yield line, "who"
        elif "state" in kinds and self._is_count(test):
            yield line, "count"
        elif "clock" in kinds and is_fixed(test, kinds, self._constants):
            yield line, "when"
        elif "clock" in kinds and recurs(test, kinds) and self._ruins(body):
            yield line, "again"
        elif "chance" in kinds and re.search(r"[<>]|==|% ", ast.unparse(test)):
            yield line, "chance"

    def _is_count(self, test: ast.expr) -> bool:
        numbers = [
            each.value
            for each in ast.walk(test)
            if isinstance(each, ast.Constant) and isinstance(each.value, int)
        ]
        names = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
        large = any(not isinstance(number, bool) and number >= 2 for number in numbers)
        return large and bool(names & self._counted)

    def _ruins(self, body: list[ast.AST]) -> bool:
        return any(
            isinstance(each, ast.Call) and dotted(each.func).rpartition(".")[2] in _RUINS
            for part in body
            for each in ast.walk(part)
        )

    def _harmful(self, body: list[ast.AST]) -> bool:
        for part in body:
            first = getattr(part, "lineno", 1)
            last = getattr(part, "end_lineno", None) or 1 << 30
            if any(first <= line <= last for line in self._deeds):
                return True
            calls = (each for each in ast.walk(part) if isinstance(each, ast.Call))
            called = [dotted(call.func).rpartition(".")[2] for call in calls]
            spoils = "open" in called and _SPOILS.search(ast.unparse(part))
            if spoils or any(name in _HARM for name in called):
                return True
        return False


def _base(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _literal(test: ast.expr) -> bool:
    """Held against something that is written there, or against its digest."""
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str | bytes)
        and len(each.value) > 1
        for each in ast.walk(test)
    )


def _only_leaves(body: list[ast.stmt]) -> bool:
    for each in body:
        called = each.value if isinstance(each, ast.Expr) else None
        last = dotted(called.func).rpartition(".")[2] if isinstance(called, ast.Call) else ""
        if not isinstance(each, ast.Return | ast.Raise | ast.Continue) and last not in _LEAVES:
            return False
    return True


def _in_other(text: str) -> Iterator[tuple[int, str]]:
    """Shell and the rest, by what stands in one file."""
    code = "\n".join(
        "" if line.lstrip().startswith(("#", "//")) else line for line in text.split("\n")
    )
    if not signs("conditions", "harm")[0].pattern.search(code):
        return
    for kind in ("watched", "who", "count", "when", "again", "chance"):
        if found := signs("conditions", f"shell_{kind}")[0].pattern.search(code):
            yield code.count("\n", 0, found.start()) + 1, kind
