"""Decisions that nobody can follow: by a digest that names nobody, or with a check left out."""

import ast
import re
from collections.abc import Iterator

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.python_folding import Folder, names_in
from hermes.skills.scanner.python_tricks import dotted

_DIGEST = re.compile(r"\.(?:hex)?digest\(\)|\b(?:crc32|adler32|fnv1a\w*|murmur\w*|xxh\w*)\(")
_NAMES = re.compile(
    r"user|name|host|login|email|kid\b|token|passw|pkg|package|author|domain|repo|branch|\bip\b|path"
)
_HEX = re.compile(r"[0-9a-fA-F]{4,128}")
_OFF = re.compile(
    r"['\"]verify_(?:signature|aud|exp|iss)['\"]: False|\bverify(?:_ssl|_signature)?=False|"
    r"algorithms?=\[?['\"]none['\"]|check_hostname = False|\bCERT_NONE\b|_create_unverified_context"
)
_SAID = re.compile(
    r"insecure|verif|debug|\bdev\w*|test|local|skip|unsafe|self_?signed|no_?check|trust|\bssl|tls|"
    r"https|peek|inspect|decode_only",
    re.IGNORECASE,
)
"""A switch that says what it does."""


def look_for_backdoors(path: str, text: str) -> Iterator[Finding]:
    if not path.endswith((".py", ".pyw")) and not re.match(r"#!.*\bpython", text):
        return
    try:
        tree = ast.parse(text)
        found = [*_Digests(tree).found(), *_left_out(tree)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for line, cause in found:
        yield Finding(kind="python", file=path, line=line, cause=cause)


class _Digests:
    """One module: names that hold a digest, and what they are held against."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree, self._constants = tree, names_in(tree)
        self._made = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and _DIGEST.search(ast.unparse(node.value))
        }
        self._listed = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }

    def found(self) -> Iterator[tuple[int, str]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and dotted(node.func).endswith("startswith"):
                sides = [getattr(node.func, "value", node.func), *node.args]
            else:
                continue
            made = next((text for each in sides if (text := self._digest(each))), "")
            fixed = any(self._fixed(each) for each in sides)
            partly = isinstance(node, ast.Call) or bool(
                re.search(r"\[-?\d*:-?\d*\]|crc|adler", made)
            )
            if made and fixed and (partly or _NAMES.search(made)):
                yield node.lineno, "it decides by a digest, so that nobody sees whom it means"

    def _digest(self, node: ast.AST) -> str:
        text = ast.unparse(node)
        if _DIGEST.search(text):
            return text
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        made = next((self._made[name] for name in names if name in self._made), None)
        return f"{text} = {ast.unparse(made)}" if made is not None else ""

    def _fixed(self, node: ast.AST, depth: int = 0) -> bool:
        """Part of a digest that is written there, or some of them."""
        if isinstance(node, ast.Name) and depth < 3 and node.id in self._listed:
            return self._fixed(self._listed[node.id], depth + 1)
        if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
            held = node.keys if isinstance(node, ast.Dict) else node.elts
            return bool(held) and all(
                each is not None and self._fixed(each, depth + 1) for each in held
            )
        if isinstance(node, ast.Call) and dotted(node.func) in ("set", "frozenset", "tuple"):
            return any(self._fixed(each, depth + 1) for each in node.args)
        value = Folder(self._constants).fold(node)
        if isinstance(value, int):
            return abs(value) > 1 << 16
        return isinstance(value, str) and bool(_HEX.fullmatch(value))


def _left_out(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """For some, and not for all: whoever they are, they come in unchecked."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or _SAID.search(ast.unparse(node.test)):
            continue
        inside = "\n".join(ast.unparse(each) for each in node.body)
        flat = not any(isinstance(each, ast.If | ast.FunctionDef) for each in node.body)
        if flat and (off := _OFF.search(inside)) and "__name__" not in ast.unparse(node.test):
            yield node.lineno, f"it leaves a check out for some: {off[0]!r}"
