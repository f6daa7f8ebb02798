"""The programs of `environments.confinement` run where nothing but Python is installed."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.environments import confinement
from hermes.environments.remote.session import BUNDLED_MODULES

PACKAGE = "hermes.environments.confinement"
MODULES = sorted(Path(confinement.__file__).parent.glob("*.py"))
OLDEST_REMOTE_PYTHON = (3, 8)


def imported_names(node: ast.AST) -> Iterator[str]:
    """The modules that are imported at run time: not those below `if TYPE_CHECKING`."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for child in node.orelse:
            yield from imported_names(child)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield f"{'.' * node.level}{node.module or ''}"
    for child in ast.iter_child_nodes(node):
        yield from imported_names(child)


def sibling_names(tree: ast.AST) -> set[str]:
    """The modules of the package that a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            found.add((node.module or "").rpartition(".")[2])
    return found


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.stem)
def test_only_the_standard_library_is_imported(file: Path) -> None:
    names = set(imported_names(ast.parse(file.read_text())))
    foreign = {
        name
        for name in names
        if name != PACKAGE
        and not name.startswith(f"{PACKAGE}.")
        and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert not foreign


def test_bundled_modules_can_be_compiled_and_loaded_in_their_order() -> None:
    loaded: set[str] = set()
    for module in BUNDLED_MODULES:
        text = (Path(confinement.__file__).parent / f"{module}.py").read_text()
        tree = ast.parse(text, feature_version=OLDEST_REMOTE_PYTHON)
        assert sibling_names(tree) <= loaded
        loaded.add(module)


def test_an_import_from_outside_is_found() -> None:
    text = (
        "import os\n"
        "if TYPE_CHECKING:\n    import anyio\nelse:\n    import msgspec\n"
        "def load():\n    from hermes.core import actions\n"
        "from . import kernel\n"
    )
    assert set(imported_names(ast.parse(text))) == {"os", "msgspec", "hermes.core", "."}
