"""What an expression of Python says once its string tricks are undone, with nothing run."""

import ast
import base64
import binascii
import codecs
import re
import zlib
from collections.abc import Callable, Mapping

Folded = str | bytes | int | list["Folded"] | None
LONGEST = 200_000
_PLAIN = re.compile(r"(?:[^{}]|\{\d?\}|\{\{|\}\})*+")
"""Fields that take a word as it is. Others reach into it, or blow it up."""
_WIDE = re.compile(r"%[^a-zA-Z%]*\d{3}")
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
    "decompress": lambda data: zlib.decompressobj(wbits=47).decompress(data, LONGEST),
}


class Folder:
    """Folds constants; knows names that are given one constant value."""

    def __init__(self, names: Mapping[str, Folded] | None = None) -> None:
        self._names = dict(names or {})
        self._left = 20_000

    def fold(self, node: ast.AST) -> Folded:
        """None for what is only known at run time."""
        self._left -= 1
        if self._left < 0:
            return None
        try:
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            return None if method is None else self._short(method(node))
        except (ValueError, TypeError, LookupError, ArithmeticError, zlib.error, MemoryError):
            return None

    @staticmethod
    def _short(value: Folded) -> Folded:
        return None if isinstance(value, str | bytes | list) and len(value) > LONGEST else value

    def _constant(self, node: ast.Constant) -> Folded:
        value = node.value
        return value if isinstance(value, str | bytes | int) else None

    def _name(self, node: ast.Name) -> Folded:
        return self._names.get(node.id)

    def _list(self, node: ast.List | ast.Tuple) -> Folded:
        return [self.fold(each) for each in node.elts]

    _tuple = _list

    def _joinedstr(self, node: ast.JoinedStr) -> Folded:
        return _joined("", [_text(self.fold(each)) for each in node.values])

    def _formattedvalue(self, node: ast.FormattedValue) -> Folded:
        return _text(self.fold(node.value))

    def _binop(self, node: ast.BinOp) -> Folded:
        left, right = self.fold(node.left), self.fold(node.right)
        if isinstance(left, int) and isinstance(right, int):
            return _counted(node.op, left, right)
        if isinstance(node.op, ast.Add):
            if isinstance(left, bytes) and isinstance(right, bytes):
                return left + right
            if isinstance(left, list) and isinstance(right, list):
                return left + right
            return _text(left) + _text(right) if isinstance(left or right, str) else None
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            values = right if isinstance(right, list) else [right]
            words = [_text(each) for each in values]
            fits = _small(left, words) and not _WIDE.search(left)
            return left % tuple(words) if fits else None
        if (
            isinstance(node.op, ast.Mult)
            and isinstance(left, str | bytes)
            and isinstance(right, int)
        ):
            return left * right if len(left) * right < LONGEST else None
        return None

    def _subscript(self, node: ast.Subscript) -> Folded:
        value = self.fold(node.value)
        if not isinstance(value, str | bytes | list):
            return None
        if isinstance(node.slice, ast.Slice):
            parts = [
                _number(self, each)
                for each in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return value[slice(*parts)]
        index = self.fold(node.slice)
        return value[index] if isinstance(index, int) else None

    def _unaryop(self, node: ast.UnaryOp) -> Folded:
        value = self.fold(node.operand)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else None

    def _generatorexp(self, node: ast.GeneratorExp | ast.ListComp) -> Folded:
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

    def _call(self, node: ast.Call) -> Folded:
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        given = [self.fold(each) for each in node.args]
        if name in _DECODERS and given and isinstance(given[0], str | bytes):
            return _DECODERS[name](_bytes(given[0]))
        if isinstance(node.func, ast.Attribute):
            return self._method(self.fold(node.func.value), name, given)
        return self._function(name, node, given)

    def _function(self, name: str, node: ast.Call, given: list[Folded]) -> Folded:
        if name == "map" and len(node.args) == 2 and isinstance(given[1], list | bytes):
            wanted = getattr(node.args[0], "id", "")
            return [_letter(each) if wanted == "chr" else each for each in list(given[1])]
        first = given[0] if given else None
        if name == "chr" and isinstance(first, int):
            return chr(first)
        if name == "ord" and isinstance(first, str) and len(first) == 1:
            return ord(first)
        if name in ("bytes", "bytearray") and isinstance(first, list):
            return bytes(each for each in first if isinstance(each, int))
        if name in ("bytes", "str") and isinstance(first, str | bytes):
            return _text(first) if name == "str" else _bytes(first)
        if name == "reversed" and isinstance(first, str | list):
            return list(reversed(first))
        if name == "int" and isinstance(first, str):
            return int(first, given[1] if len(given) > 1 and isinstance(given[1], int) else 10)
        return first if name in ("list", "tuple") and isinstance(first, list) else None

    def _method(self, value: Folded, name: str, given: list[Folded]) -> Folded:
        first = given[0] if given else None
        if name == "decode" and isinstance(first, str | bytes) and value is None:
            return _turned(_text(first), _text(given[1]) if len(given) > 1 else "")
        if name == "join" and isinstance(value, str | bytes) and isinstance(first, list | str):
            return _joined(_text(value), [_text(each) for each in first])
        if name in ("decode", "encode"):
            return _text(value) if name == "decode" else _bytes(_text(value))
        if not isinstance(value, str):
            return None
        if name in ("lower", "upper", "strip", "title", "swapcase", "lstrip", "rstrip"):
            return str(getattr(value, name)())
        if name == "replace" and len(given) > 1:
            grown = (value.count(_text(given[0])) + 1) * len(_text(given[1]))
            return value.replace(_text(given[0]), _text(given[1])) if grown < LONGEST else None
        if name == "split":
            return list(value.split(_text(first) or None))
        if name == "format":
            words = [_text(each) for each in given]
            fits = _PLAIN.fullmatch(value) and _small(value, words)
            return value.format(*words) if fits else None
        return None


def _joined(between: str, words: list[str]) -> Folded:
    grown = sum(map(len, words)) + len(between) * len(words)
    return between.join(words) if grown < LONGEST else None


def _small(pattern: str, words: list[str]) -> bool:
    """Asked before anything is put together: a few lines of code can ask for gigabytes."""
    return (1 + max(map(len, words), default=0)) * (
        1 + pattern.count("{") + pattern.count("%")
    ) < LONGEST


def _number(folder: Folder, node: ast.expr | None) -> int | None:
    value = folder.fold(node) if node is not None else None
    return value if isinstance(value, int) else None


def _counted(operator: ast.operator, left: int, right: int) -> Folded:
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


def _letter(value: Folded) -> str:
    return chr(value) if isinstance(value, int) else _text(value)


def _turned(text: str, way: str) -> Folded:
    if way in ("rot13", "rot_13", "rot-13"):
        return codecs.encode(text, "rot13")
    if way in ("hex", "base64"):
        return _DECODERS["fromhex" if way == "hex" else "b64decode"](text.encode())
    return text


def _text(value: Folded) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else (str(value) if isinstance(value, int) else "")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def names_in(tree: ast.AST) -> dict[str, Folded]:
    """Names that are given exactly one value which can be folded."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                given.setdefault(target.id, []).append(node.value)
    found: dict[str, Folded] = {}
    for name, values in given.items():
        if len(values) == 1:
            value = Folder(found).fold(values[0])
            if value is not None:
                found[name] = value
    return found
