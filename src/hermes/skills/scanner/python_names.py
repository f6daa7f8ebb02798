"""What a name in Python stands for, by whatever road it came, and which path is put together."""

import ast
from collections.abc import Mapping

from hermes.skills.scanner.python_folding import Folded, Folder

_HOME = {"pathlib.Path.home", "Path.home"}
_JOINS = {"os.path.join", "posixpath.join", "ntpath.join"}
_PASSES = {"str", "os.fspath", "os.path.abspath", "os.path.realpath", "os.path.normpath", "open",
           "pathlib.Path", "pathlib.PurePath", "Path", "pathlib.PosixPath", "os.path.expanduser",
           "os.path.expandvars"}  # fmt: skip
_KEEPS = {"expanduser", "resolve", "absolute", "as_posix", "strip", "rstrip", "format", "joinpath"}
UNKNOWN = "?"
DEEPEST = 40


class Names:
    """The aliases of one module: `import os as o`, `s = o.system`, `getattr(o, "sys" "tem")`."""

    def __init__(self, tree: ast.AST, constants: Mapping[str, Folded]) -> None:
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
        called = self.of(value)
        if (
            called
            and called != target.id
            and isinstance(value, ast.Attribute | ast.Name | ast.Call)
        ):
            known = called if not isinstance(value, ast.Call) or _fetches(value) else ""
            if known:
                self._known.setdefault(target.id, known)
        self._paths.setdefault(target.id, value)

    def _learn_loop(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._paths.setdefault(target.id, over)

    def source(self, name: ast.Name) -> ast.expr:
        """What a name was first given; itself when nobody knows."""
        return self._paths.get(name.id, name)

    def of(self, node: ast.AST, depth: int = 0) -> str:
        """The full name of what is called or read; empty when only running would tell."""
        if depth > DEEPEST:
            return ""
        if isinstance(node, ast.Name):
            return self._known.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.of(node.value, depth + 1)
            return f"{owner}.{node.attr}" if owner else node.attr
        if isinstance(node, ast.Call):
            return self._of_call(node, depth + 1)
        return ""

    def _of_call(self, node: ast.Call, depth: int) -> str:
        name = self.of(node.func, depth)
        last = name.rpartition(".")[2]
        if last in ("__import__", "import_module") and node.args:
            return str(self._folded(node.args[0]) or "")
        if last == "getattr" and len(node.args) > 1:
            wanted = self._folded(node.args[1])
            return f"{self.of(node.args[0], depth)}.{wanted}" if isinstance(wanted, str) else ""
        return f"{name}()" if name else ""

    def _folded(self, node: ast.expr) -> Folded:
        return Folder(self._constants).fold(node)

    def path(self, node: ast.AST, depth: int = 0) -> str:
        """A path or an address with `~` for the home and `?` for what is not known."""
        if depth > DEEPEST:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else UNKNOWN
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add | ast.Mod):
            glue = "/" if isinstance(node.op, ast.Div) else ""
            return f"{self.path(node.left, depth + 1)}{glue}{self.path(node.right, depth + 1)}"
        if isinstance(node, ast.JoinedStr):
            return "".join(self.path(each, depth + 1) for each in node.values)
        if isinstance(node, ast.FormattedValue | ast.Starred | ast.Await):
            return self.path(node.value, depth + 1)
        if isinstance(node, ast.Name):
            value = self._paths.get(node.id)
            return UNKNOWN if value is None else self.path(value, depth + 1 + DEEPEST // 6)
        if isinstance(node, ast.List | ast.Tuple):
            return " ".join(self.path(each, depth + 1) for each in node.elts[:20])
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return self._path_of_call(node, depth + 1) if isinstance(node, ast.Call) else UNKNOWN

    def _item(self, node: ast.Subscript) -> str:
        if self.of(node.value) == "os.environ":
            return "~" if self._folded(node.slice) in ("HOME", "USERPROFILE") else UNKNOWN
        value = self._folded(node)
        return value if isinstance(value, str) else UNKNOWN

    def _path_of_call(self, node: ast.Call, depth: int) -> str:
        name = self.of(node.func)
        folded = self._folded(node)
        if isinstance(folded, str | bytes):
            return folded if isinstance(folded, str) else folded.decode(errors="replace")
        if name in _HOME or (name in ("os.getenv", "os.environ.get") and _asks_home(node)):
            return "~"
        given = [self.path(each, depth) for each in node.args]
        if name in _JOINS or name in _PASSES:
            return "/".join(given) if given else UNKNOWN
        if isinstance(node.func, ast.Attribute):
            owner = self.path(node.func.value, depth)
            if node.func.attr in _KEEPS or node.func.attr in (
                "glob",
                "rglob",
                "iterdir",
                "with_name",
            ):
                return "/".join([owner, *given])
        return UNKNOWN


def _fetches(node: ast.Call) -> bool:
    last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return last in ("__import__", "import_module", "getattr")


def _asks_home(node: ast.Call) -> bool:
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and first.value in ("HOME", "USERPROFILE")
