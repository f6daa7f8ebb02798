"""What a function takes, read from its text: no line of it runs in our process."""

import ast
import inspect
from copy import copy
from functools import partial
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Value

_PLAIN: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "dict": dict[str, Any],
    "list": list[Any],
    "tuple": list[Any],
    "set": list[Any],
    "None": None,
    "Any": Any,
    "object": Any,
    "Mapping": dict[str, Any],
    "Sequence": list[Any],
    "Iterable": list[Any],
}
_KEYED = ("dict", "Mapping", "MutableMapping", "Dict")
_LISTED = ("list", "Sequence", "Iterable", "List", "set", "frozenset")
_REQUIRED = object()


class Argument(Value, kw_only=True, frozen=True):
    name: str
    told: str
    """Its type, as it is written."""
    more: str = ""


class Signature(Value, kw_only=True, frozen=True):
    function: str
    about: str
    parameters: tuple[Argument, ...] = ()
    schema: dict[str, Any] = {}


class Unfit(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


def signature_of(tree: ast.Module, function: str) -> Signature:
    """Raises `Unfit` for a function that cannot be a tool."""
    body = _find(tree, function)
    about = ast.get_docstring(body)
    if not about or len(about) < 10:
        raise Unfit(body.lineno, f"{function} needs a docstring: it becomes the tool's description")
    kind = arguments_of(body)
    taken = [*body.args.args, *body.args.kwonlyargs]
    defaults = _defaults(body)
    parameters = tuple(
        Argument(
            name=each.arg,
            told=ast.unparse(each.annotation) if each.annotation else "",
            more=f", by default `{defaults[each.arg]!r}`" if each.arg in defaults else "",
        )
        for each in taken
    )
    return Signature(
        function=function,
        about=inspect.cleandoc(about),
        parameters=parameters,
        schema=schema_of(kind),
    )


def arguments_of(body: ast.FunctionDef) -> type[msgspec.Struct]:
    """A struct that takes what the function takes."""
    if body.args.vararg or body.args.kwarg or body.args.posonlyargs:
        raise Unfit(body.lineno, f"{body.name}: only plain parameters, no *, ** or /")
    defaults = _defaults(body)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in [*body.args.args, *body.args.kwonlyargs]:
        if each.annotation is None:
            raise Unfit(each.lineno, f"the parameter {each.arg} needs a type")
        kind = _type(each.annotation)
        default = defaults.get(each.arg, _REQUIRED)
        if default is _REQUIRED:
            fields.append((each.arg, kind))
        elif isinstance(default, dict | list | set):
            fields.append((each.arg, kind, msgspec.field(default_factory=partial(copy, default))))
        else:
            fields.append((each.arg, kind, default))
    return msgspec.defstruct(body.name, fields, kw_only=True, forbid_unknown_fields=True)


def fit(kind: type[msgspec.Struct], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the function wants them. Raises `ToolError` for the model."""
    try:
        made = msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        takes = ", ".join(kind.__struct_fields__) or "nothing"
        raise ToolError(f"arguments do not fit {name}: {error}. It takes: {takes}.") from error
    plain: dict[str, Any] = msgspec.to_builtins(made)
    return plain


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found: dict[str, Any] = dict(parts[kind.__name__])
    found.pop("title", None)
    if not found.get("required"):
        found.pop("required", None)
    return found


def _find(tree: ast.Module, function: str) -> ast.FunctionDef:
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name == function:
            return each
        if isinstance(each, ast.AsyncFunctionDef) and each.name == function:
            raise Unfit(each.lineno, f"{function} has to be a plain function, not async")
    raise Unfit(1, f"there is no function {function} at the top of the file")


def find_function(code: str, function: str) -> ast.FunctionDef:
    return _find(ast.parse(code), function)


def _defaults(body: ast.FunctionDef) -> dict[str, Any]:
    found: dict[str, ast.expr] = {}
    positional = body.args.args
    start = len(positional) - len(body.args.defaults)
    found |= {
        each.arg: value for each, value in zip(positional[start:], body.args.defaults, strict=True)
    }
    for each, given in zip(body.args.kwonlyargs, body.args.kw_defaults, strict=True):
        if given is not None:
            found[each.arg] = given
    try:
        return {name: ast.literal_eval(value) for name, value in found.items()}
    except ValueError as error:
        raise Unfit(body.lineno, f"{body.name}: defaults have to be plain values") from error


def _type(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return _constant(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _type(node.left) | _type(node.right)
    if isinstance(node, ast.Subscript):
        return _subscript(node)
    name = _last_name(node)
    if name not in _PLAIN:
        raise Unfit(node.lineno, f"the type {ast.unparse(node)} cannot be given by a tool call")
    return _PLAIN[name]


def _constant(node: ast.Constant) -> Any:
    if node.value is None:
        return None
    if isinstance(node.value, str):
        return _type(ast.parse(node.value, mode="eval").body)
    raise Unfit(node.lineno, f"{node.value!r} is no type")


def _subscript(node: ast.Subscript) -> Any:
    name, inner = _last_name(node.value), node.slice
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name in _KEYED and len(parts) == 2:
        return dict[str, _type(parts[1])]  # type: ignore[misc]  # JSON keys are texts
    if name in _LISTED and len(parts) == 1:
        return list[_type(parts[0])]  # type: ignore[misc]
    if name in ("tuple", "Tuple"):
        return list[Any]
    if name == "Optional" and len(parts) == 1:
        return _type(parts[0]) | None
    if name == "Literal":
        values = tuple(part.value for part in parts if isinstance(part, ast.Constant))
        if len(values) == len(parts):
            return Literal[values]
    raise Unfit(node.lineno, f"the type {ast.unparse(node)} cannot be given by a tool call")


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
