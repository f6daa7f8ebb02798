"""Checks names in `src/` against `docs/glossary.md`, and that no class name is defined twice.

usage: python scripts/names.py [--root CHECKOUT]

Fields of classes are not compared: many are keys of stored formats, which may not change.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

REPEATED_CLASSES = {
    "Action": "the OpenEnv protocol publishes its own `Action` in its schema",
}
KEPT_NAMES = {
    "patience": "the configuration key `store.patience`",
    "house": "`Agent.house`, the earlier name of `Agent.application`",
    "dice": "`hermes.gym.dice`, imported by scenarios written for the previous version",
    "story": "`hermes.gym.story`, imported by scenarios written for the previous version",
}
_ROW = re.compile(r"\|\s*\*\*(?P<word>[^*]+)\*\*\s*\|.*\|(?P<unused>[^|]*)\|\s*$")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def read_unused_words(glossary: str) -> dict[str, str]:
    """Each word of the last column with the word to use instead; words in brackets are left out."""
    unused = {}
    for line in glossary.splitlines():
        if row := _ROW.match(line):
            words = re.sub(r"\([^)]*\)", "", row["unused"]).split(",")
            unused.update({word.strip(): row["word"] for word in words if word.strip()})
    return unused


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def class_fields(tree: ast.AST) -> set[int]:
    """Lines of annotated fields in class bodies."""
    return {
        item.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    }


def split_words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def complaints_about_words(path: Path, tree: ast.AST, unused: dict[str, str]) -> Iterator[str]:
    fields = class_fields(tree)
    names = [(1, path.stem), *defined_names(tree)]
    for line, name in dict.fromkeys(names):
        if line in fields or name in KEPT_NAMES:
            continue
        for word in split_words(name):
            instead = unused.get(word) or unused.get(word.removesuffix("s"))
            if instead:
                yield f"{path}:{line}: {name}: the glossary says {instead}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args().root
    unused = read_unused_words((root / "docs/glossary.md").read_text("utf-8"))
    found: list[str] = []
    classes: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "src").rglob("*.py")):
        tree, shown = ast.parse(path.read_text("utf-8")), path.relative_to(root)
        found += complaints_about_words(shown, tree, unused)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in REPEATED_CLASSES:
                classes[node.name].append(f"{shown}:{node.lineno}")
    found += [
        f"{', '.join(places)}: class {name} is defined more than once"
        for name, places in classes.items()
        if len(places) > 1
    ]
    sys.stdout.write("\n".join(found or ["Names KEPT"]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
