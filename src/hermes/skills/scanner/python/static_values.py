"""Parses Python code, and computes values and full names in it without running it."""

import ast
import base64
import binascii
import codecs
import operator
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

FoldedValue = str | bytes | int | list["FoldedValue"] | None
MAX_FOLDED_LENGTH = 200_000
_PLAIN_FORMAT = re.compile(r"(?:[^{}]|\{\d?\}|\{\{|\}\})*+")
"""Only plain fields: others access attributes or pad to any size."""
_WIDE_FORMAT = re.compile(r"%[^a-zA-Z%]*\d{3}")
_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "b64decode": lambda data: base64.b64decode(data + b"=" * (-len(data) % 4)),
    "urlsafe_b64decode": lambda data: base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4)),
    "standard_b64decode": base64.b64decode,
    "decodebytes": base64.decodebytes,
    "b32decode": base64.b32decode,
    "b16decode": base64.b16decode,
    "b85decode": base64.b85decode,
    "a85decode": base64.a85decode,
    "unhexlify": binascii.unhexlify,
    "fromhex": lambda data: bytes.fromhex(data.decode()),
    "a2b_hex": binascii.unhexlify,
    "a2b_base64": binascii.a2b_base64,
    "decompress": lambda data: zlib.decompressobj(wbits=47).decompress(data, MAX_FOLDED_LENGTH),
}


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class ConstantFolder:
    """Computes constant expressions. `names`: the names with one constant value."""

    def __init__(self, names: Mapping[str, FoldedValue]) -> None:
        self._names = dict(names)
        self._folds_left = 20_000

    def fold(self, node: ast.AST) -> FoldedValue:
        """Return None for a value known only at run time."""
        self._folds_left -= 1
        if self._folds_left < 0:
            return None
        try:
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            value: FoldedValue = None if method is None else method(node)
        except (ValueError, TypeError, LookupError, ArithmeticError, zlib.error, MemoryError):
            return None
        too_long = isinstance(value, str | bytes | list) and len(value) > MAX_FOLDED_LENGTH
        return None if too_long else value

    def _constant(self, node: ast.Constant) -> FoldedValue:
        value = node.value
        return value if isinstance(value, str | bytes | int) else None

    def _name(self, node: ast.Name) -> FoldedValue:
        return self._names.get(node.id)

    def _list(self, node: ast.List | ast.Tuple) -> FoldedValue:
        return [self.fold(each) for each in node.elts]

    _tuple = _list

    def _joinedstr(self, node: ast.JoinedStr) -> FoldedValue:
        return _join_texts("", [_to_text(self.fold(each)) for each in node.values])

    def _formattedvalue(self, node: ast.FormattedValue) -> FoldedValue:
        return _to_text(self.fold(node.value))

    def _binop(self, node: ast.BinOp) -> FoldedValue:
        left, right = self.fold(node.left), self.fold(node.right)
        if isinstance(left, int) and isinstance(right, int):
            compute = _ARITHMETIC.get(type(node.op))
            small = abs(left) < 1 << 40 and abs(right) < 1 << 40
            return compute(left, right) if compute and small else None
        if isinstance(node.op, ast.Add):
            for kind in (bytes, list):
                if isinstance(left, kind) and isinstance(right, kind):
                    return left + right  # type: ignore[operator]
            return _to_text(left) + _to_text(right) if isinstance(left or right, str) else None
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            values = right if isinstance(right, list) else [right]
            words = [_to_text(each) for each in values]
            fits = _is_small_result(left, words) and not _WIDE_FORMAT.search(left)
            return left % tuple(words) if fits else None
        if isinstance(node.op, ast.Mult) and isinstance(left, str | bytes):
            small = isinstance(right, int) and len(left) * right < MAX_FOLDED_LENGTH
            return left * right if small and isinstance(right, int) else None
        return None

    def _subscript(self, node: ast.Subscript) -> FoldedValue:
        value = self.fold(node.value)
        if not isinstance(value, str | bytes | list):
            return None
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(self._number(each) for each in bounds))]
        index = self.fold(node.slice)
        return value[index] if isinstance(index, int) else None

    def _number(self, node: ast.expr | None) -> int | None:
        value = self.fold(node) if node is not None else None
        return value if isinstance(value, int) else None

    def _unaryop(self, node: ast.UnaryOp) -> FoldedValue:
        value = self.fold(node.operand)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else None

    def _generatorexp(self, node: ast.GeneratorExp | ast.ListComp) -> FoldedValue:
        over = node.generators[0]
        values = self.fold(over.iter)
        if isinstance(values, str | bytes):
            values = list(values)
        if len(node.generators) != 1 or not isinstance(over.target, ast.Name):
            return None
        if not isinstance(values, list):
            return None
        inner = []
        for value in values:
            self._names[over.target.id] = value
            inner.append(self.fold(node.elt))
        self._names.pop(over.target.id, None)
        return inner

    _listcomp = _generatorexp

    def _call(self, node: ast.Call) -> FoldedValue:
        name = last_name(node.func)
        arguments = [self.fold(each) for each in node.args]
        if name in _DECODERS and arguments and isinstance(arguments[0], str | bytes):
            return _DECODERS[name](_to_bytes(arguments[0]))
        if isinstance(node.func, ast.Attribute):
            return self._method(self.fold(node.func.value), name, arguments)
        return self._function(name, node, arguments)

    def _function(self, name: str, node: ast.Call, arguments: list[FoldedValue]) -> FoldedValue:
        if name == "map" and len(node.args) == 2 and isinstance(arguments[1], list | bytes):
            wanted = getattr(node.args[0], "id", "")
            values = list(arguments[1])
            if wanted != "chr":
                return values
            return [chr(each) if isinstance(each, int) else _to_text(each) for each in values]
        first = arguments[0] if arguments else None
        if name == "chr" and isinstance(first, int):
            return chr(first)
        if name == "ord" and isinstance(first, str) and len(first) == 1:
            return ord(first)
        if name in ("bytes", "bytearray") and isinstance(first, list):
            return bytes(each for each in first if isinstance(each, int))
        if name in ("bytes", "str") and isinstance(first, str | bytes):
            return _to_text(first) if name == "str" else _to_bytes(first)
        if name == "reversed" and isinstance(first, str | list):
            return list(reversed(first))
        if name == "int" and isinstance(first, str):
            base = arguments[1] if len(arguments) > 1 else 10
            return int(first, base if isinstance(base, int) else 10)
        return first if name in ("list", "tuple") and isinstance(first, list) else None

    def _method(self, value: FoldedValue, name: str, arguments: list[FoldedValue]) -> FoldedValue:
        first = arguments[0] if arguments else None
        if name == "decode" and isinstance(first, str | bytes) and value is None:
            encoding = _to_text(arguments[1]) if len(arguments) > 1 else ""
            return _decode_text(_to_text(first), encoding)
        if name == "join" and isinstance(value, str | bytes) and isinstance(first, list | str):
            return _join_texts(_to_text(value), [_to_text(each) for each in first])
        if name in ("decode", "encode"):
            return _to_text(value) if name == "decode" else _to_bytes(_to_text(value))
        if not isinstance(value, str):
            return None
        if name in ("lower", "upper", "strip", "title", "swapcase", "lstrip", "rstrip"):
            return str(getattr(value, name)())
        if name == "replace" and len(arguments) > 1:
            old, new = _to_text(arguments[0]), _to_text(arguments[1])
            small = (value.count(old) + 1) * len(new) < MAX_FOLDED_LENGTH
            return value.replace(old, new) if small else None
        if name == "split":
            return list(value.split(_to_text(first) or None))
        if name == "format":
            words = [_to_text(each) for each in arguments]
            fits = _PLAIN_FORMAT.fullmatch(value) and _is_small_result(value, words)
            return value.format(*words) if fits else None
        return None


def _join_texts(between: str, words: list[str]) -> FoldedValue:
    length = sum(map(len, words)) + len(between) * len(words)
    return between.join(words) if length < MAX_FOLDED_LENGTH else None


def _is_small_result(pattern: str, words: list[str]) -> bool:
    """Checked before formatting: a short expression can produce gigabytes."""
    fields = 1 + pattern.count("{") + pattern.count("%")
    return (1 + max(map(len, words), default=0)) * fields < MAX_FOLDED_LENGTH


def _decode_text(text: str, encoding: str) -> FoldedValue:
    if encoding in ("rot13", "rot_13", "rot-13"):
        return codecs.encode(text, "rot13")
    if encoding in ("hex", "base64"):
        return _DECODERS["fromhex" if encoding == "hex" else "b64decode"](text.encode())
    return text


def _to_text(value: FoldedValue) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else (str(value) if isinstance(value, int) else "")


def _to_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def find_constants(nodes: Sequence[ast.AST]) -> dict[str, FoldedValue]:
    """Names that are assigned exactly once, with a constant value."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                assigned.setdefault(target.id, []).append(node.value)
    found: dict[str, FoldedValue] = {}
    for name, values in assigned.items():
        if len(values) == 1:
            value = ConstantFolder(found).fold(values[0])
            if value is not None:
                found[name] = value
    return found


_HOME_CALLS = {"pathlib.Path.home", "Path.home"}
_PATH_JOINS = {"os.path.join", "posixpath.join", "ntpath.join"}
_PATH_WRAPPERS = {
    "str", "os.fspath", "os.path.abspath", "os.path.realpath", "os.path.normpath", "open",
    "pathlib.Path", "pathlib.PurePath", "Path", "pathlib.PosixPath", "os.path.expanduser",
    "os.path.expandvars",
}  # fmt: skip
_PATH_METHODS = {
    "expanduser", "resolve", "absolute", "as_posix", "strip", "rstrip", "format", "joinpath",
    "glob", "rglob", "iterdir", "with_name",
}  # fmt: skip
UNKNOWN_VALUE = "?"
MAX_RESOLVE_DEPTH = 40


class NameResolver:
    """Resolves aliases: `import os as o`, `s = o.system`, `getattr(o, "sys" "tem")`."""

    def __init__(self, nodes: Sequence[ast.AST], constants: Mapping[str, FoldedValue]) -> None:
        self._constants = constants
        self._known: dict[str, str] = {}
        self._paths: dict[str, ast.expr] = {}
        for node in nodes:
            self._learn_import(node)
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._learn(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._learn(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                if isinstance(node.target, ast.Name):
                    self._paths.setdefault(node.target.id, node.iter)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._learn(node.optional_vars, node.context_expr)

    def _learn_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                name = each.name if each.asname else each.name.split(".")[0]
                self._known[each.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                self._known[each.asname or each.name] = f"{node.module}.{each.name}"

    def _learn(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        name = self.full_name(value)
        is_alias = isinstance(value, ast.Attribute | ast.Name) or (
            isinstance(value, ast.Call)
            and last_name(value.func) in ("__import__", "import_module", "getattr")
        )
        if name and name != target.id and is_alias:
            self._known.setdefault(target.id, name)
        self._paths.setdefault(target.id, value)

    def first_value(self, name: ast.Name) -> ast.expr:
        """The first value assigned to a name; the name itself when there is none."""
        return self._paths.get(name.id, name)

    def full_name(self, node: ast.AST, depth: int = 0) -> str:
        """The full name of a function or attribute; empty when known only at run time."""
        if depth > MAX_RESOLVE_DEPTH:
            return ""
        if isinstance(node, ast.Name):
            return self._known.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value, depth + 1)
            return f"{owner}.{node.attr}" if owner else node.attr
        if isinstance(node, ast.Call):
            return self._call_name(node, depth + 1)
        return ""

    def _call_name(self, node: ast.Call, depth: int) -> str:
        name = self.full_name(node.func, depth)
        last = name.rpartition(".")[2]
        if last in ("__import__", "import_module") and node.args:
            return str(self._folded(node.args[0]) or "")
        if last == "getattr" and len(node.args) > 1:
            wanted, owner = self._folded(node.args[1]), self.full_name(node.args[0], depth)
            return f"{owner}.{wanted}" if isinstance(wanted, str) else ""
        return f"{name}()" if name else ""

    def _folded(self, node: ast.expr) -> FoldedValue:
        return ConstantFolder(self._constants).fold(node)

    def resolve_path(self, node: ast.AST, depth: int = 0) -> str:
        """A path or an address with `~` for the home and `?` for unknown parts."""
        if depth > MAX_RESOLVE_DEPTH:
            return UNKNOWN_VALUE
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else UNKNOWN_VALUE
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add | ast.Mod):
            glue = "/" if isinstance(node.op, ast.Div) else ""
            left = self.resolve_path(node.left, depth + 1)
            return f"{left}{glue}{self.resolve_path(node.right, depth + 1)}"
        if isinstance(node, ast.JoinedStr):
            return "".join(self.resolve_path(each, depth + 1) for each in node.values)
        if isinstance(node, ast.FormattedValue | ast.Starred | ast.Await):
            return self.resolve_path(node.value, depth + 1)
        if isinstance(node, ast.Name):
            value = self._paths.get(node.id)
            deeper = depth + 1 + MAX_RESOLVE_DEPTH // 6
            return UNKNOWN_VALUE if value is None else self.resolve_path(value, deeper)
        if isinstance(node, ast.List | ast.Tuple):
            return " ".join(self.resolve_path(each, depth + 1) for each in node.elts[:20])
        if isinstance(node, ast.Subscript):
            return self._item_path(node)
        return self._call_path(node, depth + 1) if isinstance(node, ast.Call) else UNKNOWN_VALUE

    def _item_path(self, node: ast.Subscript) -> str:
        if self.full_name(node.value) == "os.environ":
            return "~" if self._folded(node.slice) in ("HOME", "USERPROFILE") else UNKNOWN_VALUE
        value = self._folded(node)
        return value if isinstance(value, str) else UNKNOWN_VALUE

    def _call_path(self, node: ast.Call, depth: int) -> str:
        name = self.full_name(node.func)
        folded = self._folded(node)
        if isinstance(folded, str | bytes):
            return folded if isinstance(folded, str) else folded.decode(errors="replace")
        reads_variable = name in ("os.getenv", "os.environ.get")
        if name in _HOME_CALLS or (reads_variable and _reads_home_variable(node)):
            return "~"
        arguments = [self.resolve_path(each, depth) for each in node.args]
        if name in _PATH_JOINS or name in _PATH_WRAPPERS:
            return "/".join(arguments) if arguments else UNKNOWN_VALUE
        if isinstance(node.func, ast.Attribute):
            owner = self.resolve_path(node.func.value, depth)
            if node.func.attr in _PATH_METHODS:
                return "/".join([owner, *arguments])
        return UNKNOWN_VALUE


def _reads_home_variable(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value in ("HOME", "USERPROFILE")


def last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


class PythonModule:
    """A file that was parsed, also one that cannot be: it is empty then, and `error` says why.

    Constants and names are computed at the first use, which may raise `RecursionError`.
    """

    def __init__(self, text: str) -> None:
        self.error = ""
        self.tree = ast.Module(body=[], type_ignores=[])
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.error = str(error) or type(error).__name__
        self.nodes = list(ast.walk(self.tree))
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def constants(self) -> dict[str, FoldedValue]:
        return find_constants(self.nodes)

    @cached_property
    def names(self) -> NameResolver:
        return NameResolver(self.nodes, self.constants)

    @cached_property
    def strings(self) -> list[Any]:
        """Constants with a text that is used; a string statement is a comment."""
        unused = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        texts = [node for node in self.nodes if isinstance(node, ast.Constant)]
        return [each for each in texts if isinstance(each.value, str) and id(each) not in unused]

    def fold(self, node: ast.AST) -> FoldedValue:
        return ConstantFolder(self.constants).fold(node)

    def imports(self) -> list[tuple[int, str]]:
        """The top level of each module that it imports, with the line."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, each.name.split(".")[0]) for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.append((node.lineno, node.module.split(".")[0]))
        return found


@lru_cache(maxsize=64)
def parse_python(text: str) -> PythonModule:
    """Several checks read each file."""
    return PythonModule(text)
