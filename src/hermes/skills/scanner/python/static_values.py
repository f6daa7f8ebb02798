"""What an expression of Python says once its string tricks are undone, with nothing run."""

import ast
import base64
import binascii
import codecs
import re
import zlib
from collections.abc import Callable, Mapping

FoldedValue = str | bytes | int | list["FoldedValue"] | None
MAX_FOLDED_LENGTH = 200_000
_PLAIN_FORMAT = re.compile(r"(?:[^{}]|\{\d?\}|\{\{|\}\})*+")
"""Fields that take a word as it is. Others reach into it, or blow it up."""
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


class ConstantFolder:
    """Folds constants; knows names that are given one constant value."""

    def __init__(self, names: Mapping[str, FoldedValue] | None = None) -> None:
        self._names = dict(names or {})
        self._folds_left = 20_000

    def fold(self, node: ast.AST) -> FoldedValue:
        """None for what is only known at run time."""
        self._folds_left -= 1
        if self._folds_left < 0:
            return None
        try:
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            return None if method is None else self._limit_length(method(node))
        except (ValueError, TypeError, LookupError, ArithmeticError, zlib.error, MemoryError):
            return None

    @staticmethod
    def _limit_length(value: FoldedValue) -> FoldedValue:
        return (
            None
            if isinstance(value, str | bytes | list) and len(value) > MAX_FOLDED_LENGTH
            else value
        )

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
            return _fold_arithmetic(node.op, left, right)
        if isinstance(node.op, ast.Add):
            if isinstance(left, bytes) and isinstance(right, bytes):
                return left + right
            if isinstance(left, list) and isinstance(right, list):
                return left + right
            return _to_text(left) + _to_text(right) if isinstance(left or right, str) else None
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            values = right if isinstance(right, list) else [right]
            words = [_to_text(each) for each in values]
            fits = _is_small_result(left, words) and not _WIDE_FORMAT.search(left)
            return left % tuple(words) if fits else None
        if (
            isinstance(node.op, ast.Mult)
            and isinstance(left, str | bytes)
            and isinstance(right, int)
        ):
            return left * right if len(left) * right < MAX_FOLDED_LENGTH else None
        return None

    def _subscript(self, node: ast.Subscript) -> FoldedValue:
        value = self.fold(node.value)
        if not isinstance(value, str | bytes | list):
            return None
        if isinstance(node.slice, ast.Slice):
            parts = [
                _fold_number(self, each)
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return value[slice(*parts)]
        index = self.fold(node.slice)
        return value[index] if isinstance(index, int) else None

    def _unaryop(self, node: ast.UnaryOp) -> FoldedValue:
        value = self.fold(node.operand)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else None

    def _generatorexp(self, node: ast.GeneratorExp | ast.ListComp) -> FoldedValue:
        over = node.generators[0]
        values = self.fold(over.iter)
        if isinstance(values, str | bytes):
            values = list(values)
        if (
            len(node.generators) != 1
            or not isinstance(over.target, ast.Name)
            or not isinstance(values, list)
        ):
            return None
        inner = []
        for value in values:
            self._names[over.target.id] = value
            inner.append(self.fold(node.elt))
        self._names.pop(over.target.id, None)
        return inner

    _listcomp = _generatorexp

    def _call(self, node: ast.Call) -> FoldedValue:
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        given = [self.fold(each) for each in node.args]
        if name in _DECODERS and given and isinstance(given[0], str | bytes):
            return _DECODERS[name](_to_bytes(given[0]))
        if isinstance(node.func, ast.Attribute):
            return self._method(self.fold(node.func.value), name, given)
        return self._function(name, node, given)

    def _function(self, name: str, node: ast.Call, given: list[FoldedValue]) -> FoldedValue:
        if name == "map" and len(node.args) == 2 and isinstance(given[1], list | bytes):
            wanted = getattr(node.args[0], "id", "")
            return [_to_character(each) if wanted == "chr" else each for each in list(given[1])]
        first = given[0] if given else None
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
            return int(first, given[1] if len(given) > 1 and isinstance(given[1], int) else 10)
        return first if name in ("list", "tuple") and isinstance(first, list) else None

    def _method(self, value: FoldedValue, name: str, given: list[FoldedValue]) -> FoldedValue:
        first = given[0] if given else None
        if name == "decode" and isinstance(first, str | bytes) and value is None:
            return _decode_text(_to_text(first), _to_text(given[1]) if len(given) > 1 else "")
        if name == "join" and isinstance(value, str | bytes) and isinstance(first, list | str):
            return _join_texts(_to_text(value), [_to_text(each) for each in first])
        if name in ("decode", "encode"):
            return _to_text(value) if name == "decode" else _to_bytes(_to_text(value))
        if not isinstance(value, str):
            return None
        if name in ("lower", "upper", "strip", "title", "swapcase", "lstrip", "rstrip"):
            return str(getattr(value, name)())
        if name == "replace" and len(given) > 1:
            grown = (value.count(_to_text(given[0])) + 1) * len(_to_text(given[1]))
            return (
                value.replace(_to_text(given[0]), _to_text(given[1]))
                if grown < MAX_FOLDED_LENGTH
                else None
            )
        if name == "split":
            return list(value.split(_to_text(first) or None))
        if name == "format":
            words = [_to_text(each) for each in given]
            fits = _PLAIN_FORMAT.fullmatch(value) and _is_small_result(value, words)
            return value.format(*words) if fits else None
        return None


def _join_texts(between: str, words: list[str]) -> FoldedValue:
    grown = sum(map(len, words)) + len(between) * len(words)
    return between.join(words) if grown < MAX_FOLDED_LENGTH else None


def _is_small_result(pattern: str, words: list[str]) -> bool:
    """Asked before anything is put together: a few lines of code can ask for gigabytes."""
    return (1 + max(map(len, words), default=0)) * (
        1 + pattern.count("{") + pattern.count("%")
    ) < MAX_FOLDED_LENGTH


def _fold_number(folder: ConstantFolder, node: ast.expr | None) -> int | None:
    value = folder.fold(node) if node is not None else None
    return value if isinstance(value, int) else None


def _fold_arithmetic(operator: ast.operator, left: int, right: int) -> FoldedValue:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.BitXor):
        return left ^ right
    if isinstance(operator, ast.Mod) and right:
        return left % right
    if isinstance(operator, ast.Mult) and abs(left) < 1 << 40 and abs(right) < 1 << 40:
        return left * right
    return left // right if isinstance(operator, ast.FloorDiv) and right else None


def _to_character(value: FoldedValue) -> str:
    return chr(value) if isinstance(value, int) else _to_text(value)


def _decode_text(text: str, way: str) -> FoldedValue:
    if way in ("rot13", "rot_13", "rot-13"):
        return codecs.encode(text, "rot13")
    if way in ("hex", "base64"):
        return _DECODERS["fromhex" if way == "hex" else "b64decode"](text.encode())
    return text


def _to_text(value: FoldedValue) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else (str(value) if isinstance(value, int) else "")


def _to_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def find_constants(tree: ast.AST) -> dict[str, FoldedValue]:
    """Names that are given exactly one value which can be folded."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                given.setdefault(target.id, []).append(node.value)
    found: dict[str, FoldedValue] = {}
    for name, values in given.items():
        if len(values) == 1:
            value = ConstantFolder(found).fold(values[0])
            if value is not None:
                found[name] = value
    return found


_HOME_CALLS = {"pathlib.Path.home", "Path.home"}
_PATH_JOINS = {"os.path.join", "posixpath.join", "ntpath.join"}
_PATH_WRAPPERS = {"str", "os.fspath", "os.path.abspath", "os.path.realpath", "os.path.normpath", "open",
           "pathlib.Path", "pathlib.PurePath", "Path", "pathlib.PosixPath", "os.path.expanduser",
           "os.path.expandvars"}  # fmt: skip
_PATH_METHODS = {
    "expanduser",
    "resolve",
    "absolute",
    "as_posix",
    "strip",
    "rstrip",
    "format",
    "joinpath",
}
UNKNOWN_VALUE = "?"
MAX_RESOLVE_DEPTH = 40


class NameResolver:
    """The aliases of one module: `import os as o`, `s = o.system`, `getattr(o, "sys" "tem")`."""

    def __init__(self, tree: ast.AST, constants: Mapping[str, FoldedValue]) -> None:
        self._constants = constants
        self._known: dict[str, str] = {}
        self._paths: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            self._learn_import(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._learn(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._learn(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._learn_loop(node.target, node.iter)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._learn(node.optional_vars, node.context_expr)

    def _learn_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                self._known[each.asname or each.name.split(".")[0]] = (
                    each.name if each.asname else each.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                self._known[each.asname or each.name] = f"{node.module}.{each.name}"

    def _learn(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        called = self.full_name(value)
        if (
            called
            and called != target.id
            and isinstance(value, ast.Attribute | ast.Name | ast.Call)
        ):
            known = called if not isinstance(value, ast.Call) or _is_dynamic_lookup(value) else ""
            if known:
                self._known.setdefault(target.id, known)
        self._paths.setdefault(target.id, value)

    def _learn_loop(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._paths.setdefault(target.id, over)

    def first_value(self, name: ast.Name) -> ast.expr:
        """What a name was first given; itself when nobody knows."""
        return self._paths.get(name.id, name)

    def full_name(self, node: ast.AST, depth: int = 0) -> str:
        """The full name of what is called or read; empty when only running would tell."""
        if depth > MAX_RESOLVE_DEPTH:
            return ""
        if isinstance(node, ast.Name):
            return self._known.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value, depth + 1)
            return f"{owner}.{node.attr}" if owner else node.attr
        if isinstance(node, ast.Call):
            return self._of_call(node, depth + 1)
        return ""

    def _of_call(self, node: ast.Call, depth: int) -> str:
        name = self.full_name(node.func, depth)
        last = name.rpartition(".")[2]
        if last in ("__import__", "import_module") and node.args:
            return str(self._folded(node.args[0]) or "")
        if last == "getattr" and len(node.args) > 1:
            wanted = self._folded(node.args[1])
            return (
                f"{self.full_name(node.args[0], depth)}.{wanted}" if isinstance(wanted, str) else ""
            )
        return f"{name}()" if name else ""

    def _folded(self, node: ast.expr) -> FoldedValue:
        return ConstantFolder(self._constants).fold(node)

    def resolve_path(self, node: ast.AST, depth: int = 0) -> str:
        """A path or an address with `~` for the home and `?` for what is not known."""
        if depth > MAX_RESOLVE_DEPTH:
            return UNKNOWN_VALUE
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else UNKNOWN_VALUE
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add | ast.Mod):
            glue = "/" if isinstance(node.op, ast.Div) else ""
            return f"{self.resolve_path(node.left, depth + 1)}{glue}{self.resolve_path(node.right, depth + 1)}"
        if isinstance(node, ast.JoinedStr):
            return "".join(self.resolve_path(each, depth + 1) for each in node.values)
        if isinstance(node, ast.FormattedValue | ast.Starred | ast.Await):
            return self.resolve_path(node.value, depth + 1)
        if isinstance(node, ast.Name):
            value = self._paths.get(node.id)
            return (
                UNKNOWN_VALUE
                if value is None
                else self.resolve_path(value, depth + 1 + MAX_RESOLVE_DEPTH // 6)
            )
        if isinstance(node, ast.List | ast.Tuple):
            return " ".join(self.resolve_path(each, depth + 1) for each in node.elts[:20])
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return self._path_of_call(node, depth + 1) if isinstance(node, ast.Call) else UNKNOWN_VALUE

    def _item(self, node: ast.Subscript) -> str:
        if self.full_name(node.value) == "os.environ":
            return "~" if self._folded(node.slice) in ("HOME", "USERPROFILE") else UNKNOWN_VALUE
        value = self._folded(node)
        return value if isinstance(value, str) else UNKNOWN_VALUE

    def _path_of_call(self, node: ast.Call, depth: int) -> str:
        name = self.full_name(node.func)
        folded = self._folded(node)
        if isinstance(folded, str | bytes):
            return folded if isinstance(folded, str) else folded.decode(errors="replace")
        if name in _HOME_CALLS or (
            name in ("os.getenv", "os.environ.get") and _reads_home_variable(node)
        ):
            return "~"
        given = [self.resolve_path(each, depth) for each in node.args]
        if name in _PATH_JOINS or name in _PATH_WRAPPERS:
            return "/".join(given) if given else UNKNOWN_VALUE
        if isinstance(node.func, ast.Attribute):
            owner = self.resolve_path(node.func.value, depth)
            if node.func.attr in _PATH_METHODS or node.func.attr in (
                "glob",
                "rglob",
                "iterdir",
                "with_name",
            ):
                return "/".join([owner, *given])
        return UNKNOWN_VALUE


def _is_dynamic_lookup(node: ast.Call) -> bool:
    last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return last in ("__import__", "import_module", "getattr")


def _reads_home_variable(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value in ("HOME", "USERPROFILE")
