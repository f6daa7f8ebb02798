"""Reads the parameters of a function from its source text, without running it."""

import ast
import inspect
from copy import copy
from functools import partial
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.standing_orders import gives_standing_order

_PLAIN_TYPES: dict[str, Any] = {
    "str": str, "int": int, "float": float, "bool": bool, "None": None, "Any": Any, "object": Any,
    "dict": dict[str, Any], "Mapping": dict[str, Any], "list": list[Any], "tuple": list[Any],
    "set": list[Any], "Sequence": list[Any], "Iterable": list[Any],
}  # fmt: skip
_MAPPING_TYPES = ("dict", "Mapping", "MutableMapping", "Dict")
_LIST_TYPES = ("list", "Sequence", "Iterable", "List", "set", "frozenset")
_NO_DEFAULT = object()


class FunctionParameter(Value, kw_only=True, frozen=True):
    name: str
    type_text: str
    """Its type, as written in the source."""
    default_text: str = ""


class FunctionSignature(Value, kw_only=True, frozen=True):
    function: str
    docstring: str
    parameters: tuple[FunctionParameter, ...] = ()
    schema: dict[str, Any] = {}


class SkillCodeError(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


def read_signature(tree: ast.Module, function: str) -> FunctionSignature:
    """Raises `SkillCodeError` for a function that cannot be a tool."""
    body = _find_function(tree, function)
    about = ast.get_docstring(body)
    if not about or len(about) < 10:
        raise SkillCodeError(
            body.lineno, f"{function} needs a docstring: it becomes the tool's description"
        )
    for text in filter(None, (about, ast.get_docstring(tree))):
        if gives_standing_order(text):
            raise SkillCodeError(
                body.lineno,
                "a docstring says what the function does, and gives no orders: every later session "
                "reads it",
            )
    kind = build_arguments_struct(body)
    defaults = _default_values(body)
    parameters = tuple(
        FunctionParameter(
            name=each.arg,
            type_text=ast.unparse(each.annotation) if each.annotation else "",
            default_text=f", by default `{defaults[each.arg]!r}`" if each.arg in defaults else "",
        )
        for each in (*body.args.args, *body.args.kwonlyargs)
    )
    return FunctionSignature(
        function=function,
        docstring=inspect.cleandoc(about),
        parameters=parameters,
        schema=build_arguments_schema(kind),
    )


def build_arguments_struct(body: ast.FunctionDef) -> type[msgspec.Struct]:
    """A struct with the parameters of the function as fields."""
    if body.args.vararg or body.args.kwarg or body.args.posonlyargs:
        raise SkillCodeError(body.lineno, f"{body.name}: only plain parameters, no *, ** or /")
    defaults = _default_values(body)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in [*body.args.args, *body.args.kwonlyargs]:
        if each.annotation is None:
            raise SkillCodeError(each.lineno, f"the parameter {each.arg} needs a type")
        kind = _resolve_type(each.annotation)
        default = defaults.get(each.arg, _NO_DEFAULT)
        if default is _NO_DEFAULT:
            fields.append((each.arg, kind))
        elif isinstance(default, dict | list | set):
            fields.append((each.arg, kind, msgspec.field(default_factory=partial(copy, default))))
        else:
            fields.append((each.arg, kind, default))
    return msgspec.defstruct(body.name, fields, kw_only=True, forbid_unknown_fields=True)


def convert_arguments(
    kind: type[msgspec.Struct], name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Converts the arguments to the types of the function. Raises `ToolError` for the model."""
    try:
        converted = msgspec.convert(arguments, kind, strict=False)
    except msgspec.ValidationError as error:
        takes = ", ".join(kind.__struct_fields__) or "nothing"
        raise ToolError(f"arguments do not fit {name}: {error}. It takes: {takes}.") from error
    plain: dict[str, Any] = msgspec.to_builtins(converted)
    return plain


def build_arguments_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found: dict[str, Any] = dict(parts[kind.__name__])
    found.pop("title", None)
    if not found.get("required"):
        found.pop("required", None)
    return found


def _find_function(tree: ast.Module, function: str) -> ast.FunctionDef:
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name == function:
            return each
        if isinstance(each, ast.AsyncFunctionDef) and each.name == function:
            raise SkillCodeError(each.lineno, f"{function} has to be a plain function, not async")
    raise SkillCodeError(1, f"there is no function {function} at the top level of the file")


def parse_function(code: str, function: str) -> ast.FunctionDef:
    return _find_function(ast.parse(code), function)


def _default_values(body: ast.FunctionDef) -> dict[str, Any]:
    arguments = body.args
    missing = len(arguments.args) - len(arguments.defaults)
    values = [*[None] * missing, *arguments.defaults, *arguments.kw_defaults]
    names = [each.arg for each in (*arguments.args, *arguments.kwonlyargs)]
    found = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    try:
        return {name: ast.literal_eval(value) for name, value in found}
    except ValueError as error:
        raise SkillCodeError(
            body.lineno, f"{body.name}: defaults have to be plain values"
        ) from error


def _resolve_type(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return _resolve_constant_type(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _resolve_type(node.left) | _resolve_type(node.right)
    if isinstance(node, ast.Subscript):
        return _resolve_subscript_type(node)
    name = _last_name(node)
    if name not in _PLAIN_TYPES:
        raise _unusable_type(node)
    return _PLAIN_TYPES[name]


def _unusable_type(node: ast.expr) -> SkillCodeError:
    cause = f"the type {ast.unparse(node)} cannot be given by a tool call"
    return SkillCodeError(node.lineno, cause)


def _resolve_constant_type(node: ast.Constant) -> Any:
    if node.value is None:
        return None
    if isinstance(node.value, str):
        return _resolve_type(ast.parse(node.value, mode="eval").body)
    raise SkillCodeError(node.lineno, f"{node.value!r} is not a type")


def _resolve_subscript_type(node: ast.Subscript) -> Any:
    name, inner = _last_name(node.value), node.slice
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name in _MAPPING_TYPES and len(parts) == 2:
        return dict[str, _resolve_type(parts[1])]  # type: ignore[misc]  # JSON keys are texts
    if name in _LIST_TYPES and len(parts) == 1:
        return list[_resolve_type(parts[0])]  # type: ignore[misc]
    if name in ("tuple", "Tuple"):
        return list[Any]
    if name == "Optional" and len(parts) == 1:
        return _resolve_type(parts[0]) | None
    if name == "Literal":
        values = tuple(part.value for part in parts if isinstance(part, ast.Constant))
        if len(values) == len(parts):
            return Literal[values]
    raise _unusable_type(node)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
