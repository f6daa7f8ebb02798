"""Reads a skill's code without running it, and says with a line what it may not do."""

import ast
import re
from collections.abc import Collection, Iterator

from hermes.core.messages import Value
from hermes.skills.compiler.allowed import (
    ATTRIBUTE_NAMED,
    COMPUTES,
    FRAMES,
    NEVER,
    PARTS,
    PLAIN_DUNDERS,
    reach_of,
    reaches,
)
from hermes.skills.compiler.draft import Draft
from hermes.skills.compiler.signature import Signature, Unfit, signature_of
from hermes.skills.format.problem import Problem

LARGEST = 64 << 10
_DUNDER = re.compile(r"__[a-zA-Z]+__")
_ELSEWHERE = re.compile(
    r"^(~|/(etc|usr|var|home|root|proc|sys|dev|bin|sbin|opt|srv|mnt|boot|lib|run|tmp)(/|$))"
)
_CLIMBS = re.compile(r"(^|[/\\])\.\.([/\\]|$)")
_QUIET = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.AnnAssign, ast.Assign)
_MADE = frozenset({"frozenset", "set", "dict", "tuple", "list", "Decimal", "compile", "Path"})
Found = Iterator[tuple[int, str]]


class Looked(Value, kw_only=True, frozen=True):
    problems: tuple[Problem, ...] = ()
    signature: Signature | None = None
    modules: tuple[str, ...] = ()
    """Of the allow-list, that it imports."""

    @property
    def ok(self) -> bool:
        return not self.problems


def look_over(draft: Draft, allowed: Collection[str] = ()) -> Looked:
    """`allowed`: modules beyond the standard library that may be installed for it."""
    problems: list[Problem] = []
    signature: Signature | None = None
    modules: set[str] = set()
    for file, text, tests in (
        (draft.file, draft.code, False),
        (f"test_{draft.file}", draft.tests, True),
    ):
        try:
            tree = parsed(text)
        except Unfit as unfit:
            problems.append(Problem(file, unfit.line, str(unfit)))
            continue
        own = {*allowed, draft.function} if tests else {*allowed}
        problems += [Problem(file, line, cause) for line, cause in _all(tree, own, tests=tests)]
        modules |= {name for _, name in _imported(tree)} & {*allowed}
        try:
            signature = signature if tests else signature_of(tree, draft.function)
        except Unfit as unfit:
            problems.append(Problem(file, unfit.line, str(unfit)))
        if tests:
            problems += [Problem(file, line, cause) for line, cause in _tested(tree, draft)]
    found = tuple(dict.fromkeys(problems))
    return Looked(problems=found, signature=signature, modules=tuple(sorted(modules)))


def parsed(text: str) -> ast.Module:
    if len(text) > LARGEST:
        raise Unfit(1, f"it is longer than {LARGEST >> 10} KiB")
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise Unfit(error.lineno or 1, f"SyntaxError: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unfit(1, f"it cannot be read: {error}") from error


def _all(tree: ast.Module, allowed: Collection[str], *, tests: bool) -> Found:
    yield from _top(tree)
    yield from _imports(tree, allowed)
    yield from _through(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield from _name(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                yield from _attribute(ast.Attribute(node.cls, name, lineno=node.cls.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _text(node, node.value, tests=tests)


def _top(tree: ast.Module) -> Found:
    """Nothing happens when it is imported."""
    for node in tree.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node, _QUIET):
            yield node.lineno, "only imports, constants, classes and functions stand at the top"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and _called(inner) not in _MADE:
                    yield inner.lineno, "a constant at the top may not call anything"


def _imports(tree: ast.Module, allowed: Collection[str]) -> Found:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from _taken_from(node)
        elif isinstance(node, ast.Import):
            for each in node.names:
                yield from _parts(node, each.name, [])
                if each.asname and each.name in PARTS:
                    yield node.lineno, f"{each.name} is used under its own name"
    for line, module in _imported(tree):
        if module not in COMPUTES and module not in allowed:
            yield line, _why_not(module)


def _taken_from(node: ast.ImportFrom) -> Found:
    if node.level or any(each.name == "*" for each in node.names):
        yield node.lineno, "no relative imports, and no import of *"
    elif node.module:
        yield from _parts(node, node.module, [each.name for each in node.names])


def _why_not(module: str) -> str:
    if reach := reach_of(module):
        return f"{module} reaches {reach}, which a skill may not"
    return f"the module {module} is not on the allow-list of modules"


def _parts(node: ast.stmt, module: str, names: list[str]) -> Found:
    root, _, rest = module.partition(".")
    if root not in PARTS:
        return
    for name in [rest.partition(".")[0]] if rest else names:
        if name not in PARTS[root]:
            yield node.lineno, f"{root}.{name} is nothing that a skill may use"


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield node.lineno, each.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]


def _through(tree: ast.Module) -> Found:
    """A harmless module has imported others, which can be reached through it."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for each in node.names:
                bound.add((each.asname or each.name).partition(".")[0])
                if isinstance(node, ast.ImportFrom) and reaches(each.name):
                    yield node.lineno, f"{node.module}.{each.name} is another module"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and reaches(node.attr):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            if module in bound:
                yield node.lineno, f"{module}.{node.attr} is another module"


def _name(node: ast.Name) -> Found:
    if node.id in NEVER:
        yield node.lineno, f"{node.id} is nothing that a skill may use"
    elif _DUNDER.fullmatch(node.id) and node.id not in PLAIN_DUNDERS:
        yield node.lineno, f"{node.id} reaches into the interpreter"


def _attribute(node: ast.Attribute) -> Found:
    if _DUNDER.fullmatch(node.attr) and node.attr not in PLAIN_DUNDERS:
        yield node.lineno, f".{node.attr} reaches into the interpreter"
    elif node.attr in FRAMES:
        yield node.lineno, f".{node.attr} is nothing that a skill may use"
    elif isinstance(node.value, ast.Name):
        module = node.value.id
        if node.attr not in PARTS.get(module, {node.attr}):
            yield node.lineno, f"{module}.{node.attr} is nothing that a skill may use"


def _call(node: ast.Call) -> Found:
    if _called(node) in ATTRIBUTE_NAMED and isinstance(node.func, ast.Name):
        name = node.args[1] if len(node.args) > 1 else None
        plain = isinstance(name, ast.Constant) and isinstance(name.value, str)
        if not plain:
            yield node.lineno, f"{node.func.id} needs a name that is written out"
        elif isinstance(name, ast.Constant) and name.value in FRAMES | NEVER:
            yield node.lineno, f"{node.func.id} of {name.value!r} is nothing that a skill may use"


def _text(node: ast.Constant, value: str, *, tests: bool) -> Found:
    hidden = [each for each in _DUNDER.findall(value) if each not in PLAIN_DUNDERS]
    if hidden:
        yield node.lineno, f"the text {hidden[0]!r} reaches into the interpreter"
    if tests:  # a test may try what must fail
        return
    if _ELSEWHERE.match(value) and " " not in value.split("/")[0]:
        yield node.lineno, f"the path {value[:60]!r} is outside skills/ and data/"
    elif _CLIMBS.search(value) and len(value) < 200:
        yield node.lineno, f"the path {value[:60]!r} climbs out of its folder"


def _tested(tree: ast.Module, draft: Draft) -> Found:
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not tests:
        yield 1, "there is no function test_…: a skill without tests is not compiled"
    elif not any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(tree)):
        yield 1, "no test asserts anything"
    if any(each.args.args for each in tests):
        yield tests[0].lineno, "tests take no arguments: there are no fixtures here"
    if not any(isinstance(n, ast.Name) and n.id == draft.function for n in ast.walk(tree)):
        named = any(
            isinstance(n, ast.Attribute) and n.attr == draft.function for n in ast.walk(tree)
        )
        if not named:
            yield 1, f"no test calls {draft.function}"


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
