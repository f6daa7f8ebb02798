"""The names that authors of plug-ins rely on exist, and the page's examples use no others."""

import ast
import re
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
ROW = re.compile(r"^\| `(hermes[\w.]+)` \| (.+) \|$", re.MULTILINE)


def published() -> dict[str, set[str]]:
    text = (DOCS / "reference/plugin-interface.md").read_text("utf-8")
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in ROW.findall(text)}


def test_no_published_name_has_disappeared() -> None:
    found = published()
    assert len(found) >= 15
    gone = [
        f"{module}.{name}"
        for module, names in found.items()
        for name in sorted(names)
        if not hasattr(import_module(module), name)
    ]
    assert gone == []


def test_the_examples_import_only_published_names() -> None:
    page = (DOCS / "how-to/plugins.md").read_text("utf-8")
    found = published()
    used = [
        (node.module, alias.name)
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hermes.")
        for alias in node.names
    ]
    assert len(used) > 10
    assert [each for each in used if each[1] not in found.get(each[0] or "", set())] == []
