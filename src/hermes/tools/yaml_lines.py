"""YAML into typed values, where every mistake knows its line."""

import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
import yaml

T = TypeVar("T", bound=msgspec.Struct)


class Mistake(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def items(root: yaml.Node) -> list[yaml.Node]:
    """The entries of a list; anything else is a list of one."""
    return list(root.value) if isinstance(root, yaml.SequenceNode) else [root]


def entries(node: yaml.Node) -> dict[str, yaml.Node]:
    """The values of a mapping by key. Raises `Mistake` if it is none, or names a key twice."""
    if not isinstance(node, yaml.MappingNode):
        raise Mistake(line_of(node), "expected `key: value` lines here")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = str(key.value)
        if name in found:
            raise Mistake(line_of(key), f"{name} is given twice")
        found[name] = value
    return found


def convert(node: yaml.Node, kind: type[T]) -> T:
    """Raises `Mistake` at the line of the key that does not fit."""
    nodes = entries(node)
    try:
        return msgspec.convert(_plain(node), kind)
    except msgspec.ValidationError as error:
        raise _located(node, nodes, kind, str(error)) from error


def _located(node: yaml.Node, nodes: dict[str, yaml.Node], kind: type[T], error: str) -> Mistake:
    known = [field.name for field in msgspec.structs.fields(kind)]
    if match := re.search(r"unknown field `(.*?)`", error):
        near = get_close_matches(match[1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        return Mistake(_key_line(node, match[1]), f"{match[1]} is not known here; {hint}")
    if match := re.search(r"missing required field `(.*?)`", error):
        return Mistake(line_of(node), f"{match[1]} is missing")
    cause, _, where = error.partition(" - at `$.")
    key = re.split(r"[.\[`]", where)[0]
    line = line_of(nodes[key]) if key in nodes else line_of(node)
    return Mistake(line, f"{key}: {cause}" if key else cause)


def _key_line(node: yaml.Node, name: str) -> int:
    return next((line_of(key) for key, _ in node.value if key.value == name), line_of(node))


def _plain(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else line_of(node)
        raise Mistake(line, f"{error.problem}") from error
    finally:
        loader.dispose()
