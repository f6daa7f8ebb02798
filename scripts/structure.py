"""Measures the structure of `src/`: files, lines, single-use modules, repeated class names.

usage: python scripts/structure.py [--list] [--check] [--root CHECKOUT]

`--list` names what each count consists of, `--check` fails when a limit is exceeded, and `--root`
measures another checkout, so that two versions can be compared.
"""

import argparse
import ast
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHORT_FILE_LINES = 40
MAX_FIGURES = {
    "modules with one importer in the same folder": 60,
    "files under 40 lines": 25,
    "class names defined more than once": 15,
}


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    lines: int
    imports: frozenset[str]
    classes: tuple[str, ...]

    @property
    def is_package(self) -> bool:
        return self.path.name in ("__init__.py", "__main__.py")


def read_modules(source: Path) -> list[Module]:
    return [read_module(path, source) for path in sorted(source.rglob("*.py"))]


def read_module(path: Path, source: Path) -> Module:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    parts = path.relative_to(source).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Module(name, path, text.count("\n"), frozenset(imported_names(tree)), classes)


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Every name that a file may import a module under, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def single_importers(modules: list[Module]) -> list[str]:
    """Modules that exactly one module imports, from the same folder."""
    importers: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        for name in module.imports:
            importers[name].append(module)
    found = []
    for module in modules:
        users = importers[module.name]
        if not module.is_package and len(users) == 1 and users[0].path.parent == module.path.parent:
            found.append(f"{module.name} (only {users[0].name})")
    return found


def repeated_classes(modules: list[Module]) -> list[str]:
    places = defaultdict(list)
    for module in modules:
        for name in module.classes:
            places[name].append(module.name)
    return [f"{name}: {', '.join(at)}" for name, at in sorted(places.items()) if len(at) > 1]


def measure(modules: list[Module]) -> dict[str, tuple[float, list[str]]]:
    sizes = [module.lines for module in modules]
    longest = max(modules, key=lambda module: module.lines)
    short = [str(m.path) for m in modules if m.lines < SHORT_FILE_LINES and not m.is_package]
    single, repeated = single_importers(modules), repeated_classes(modules)
    return {
        "files": (len(modules), []),
        "lines": (sum(sizes), []),
        "median file": (statistics.median(sizes), []),
        "longest file": (longest.lines, [str(longest.path)]),
        "modules with one importer in the same folder": (len(single), single),
        "files under 40 lines": (len(short), short),
        "class names defined more than once": (len(repeated), repeated),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name what is counted")
    parser.add_argument("--root", type=Path, default=Path(), help="another checkout")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    chosen = parser.parse_args()
    exceeded = False
    for figure, (value, names) in measure(read_modules(chosen.root / "src")).items():
        too_many = chosen.check and value > MAX_FIGURES.get(figure, value)
        exceeded |= too_many
        limit = f"  at most {MAX_FIGURES[figure]}" if too_many else ""
        sys.stdout.write(f"{figure:46} {value:9,.0f}{limit}\n")
        if chosen.list or too_many:
            sys.stdout.write("".join(f"    {name}\n" for name in names))
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
