"""Python read for what it can do: names followed to what they stand for, paths put together."""

import ast
import re
import sys
from collections.abc import Iterator

from hermes.skills.scanner import python_words as words
from hermes.skills.scanner.deed import Deed
from hermes.skills.scanner.dependencies import popular
from hermes.skills.scanner.python_folding import Folder, names_in
from hermes.skills.scanner.python_names import Names
from hermes.skills.scanner.python_network import network_deed
from hermes.skills.scanner.shell_unfolded import unfolded
from hermes.skills.scanner.signs import signs

_UNSIGNED = re.compile(r"['\"]verify_signature['\"]: False|^algorithms?=\[?['\"]none['\"]")
_TELLING = ("agent", "workflows", "names", "access", "stays", "tracks", "privilege")


def python_deeds(file: str, text: str) -> list[Deed]:
    try:
        reader = _Reader(file, ast.parse(text))
        found = list(reader.deeds())
        if any(deed.kind == "network" for deed in found):
            for line, name in reader.secret_names():
                found.append(Deed(kind="secret-name", file=file, line=line, detail=name))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return found


class _Reader:
    """One file; what it calls, writes, removes, replaces and names."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file, self._tree = file, tree
        self._constants = names_in(tree)
        self._names = Names(tree, self._constants)
        self._idle = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        self._starts = any(
            words.STARTS.match(self._names.of(each))
            for each in ast.walk(tree)
            if isinstance(each, ast.Attribute | ast.Name)
        )
        self._reads = any(
            words.LOCAL.search(self._names.of(each))
            for each in ast.walk(tree)
            if isinstance(each, ast.Attribute | ast.Name)
        )

    def deeds(self) -> Iterator[Deed]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                yield from self._call(node)
                yield from self._place(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
            elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant):
                yield from self._place(node)
                yield from self._said(node)
            elif isinstance(node, ast.List | ast.Tuple):
                yield from self._listed(node)
            elif isinstance(node, ast.While):
                yield from self._loop(node)
            elif isinstance(node, ast.Assign):
                yield from self._replaced(node)

    def _call(self, node: ast.Call) -> Iterator[Deed]:
        name = self._names.of(node.func)
        last = name.rpartition(".")[2]
        if last in words.CALLS_OUT and (out := self._talk(node, name)):
            yield out
        if name in words.REMOVES or last in ("unlink", "rmtree", "rmdir"):
            yield from self._removal(node, name)
        if words.HOOKS.match(name):
            yield self._did("hooks", node, ast.unparse(node))
        yield from self._dynamic(node, name, last)
        yield from self._environment(node, name)
        yield from self._trust(node, last)
        yield from self._written(node, name, last)
        serves = last == "bind" or last.endswith(("HTTPServer", "TCPServer"))
        if serves and node.args and words.EVERYWHERE.search(ast.unparse(node.args[0])):
            yield self._did("listens", node, ast.unparse(node))

    def _talk(self, node: ast.Call, name: str) -> Deed | None:
        return network_deed(self._file, self._names, node, name, reads=self._reads)

    def _environment(self, node: ast.Call, name: str) -> Iterator[Deed]:
        shows = name in words.SHOWS and any(self._names.of(e) == "os.environ" for e in node.args)
        if shows or (name in words.WHOLE_ENVIRONMENT and not self._for_child(name)):
            yield self._did("environment", node, ast.unparse(node))

    def _for_child(self, name: str) -> bool:
        """A copy that is changed and handed to a program is how programs are started."""
        return name == "os.environ.copy" and any(
            isinstance(each, ast.keyword) and each.arg == "env" for each in ast.walk(self._tree)
        )

    def _removal(self, node: ast.Call, name: str) -> Iterator[Deed]:
        target = node.args[0] if name in words.REMOVES and node.args else node.func
        if isinstance(target, ast.Attribute):
            target = target.value
        shown, path = ast.unparse(target), self._names.path(target)
        if words.OWN_OUTPUT.search(shown) or words.OWN_OUTPUT.search(path) or "tempfile" in shown:
            return
        kind = next((kind for kind in ("agent", "tracks") if _lies_in(kind, path)), "delete")
        kind = "tracks" if "/var/log" in path else kind
        thing = path if kind == "delete" else ""
        yield Deed(
            kind=kind, file=self._file, line=node.lineno, detail=ast.unparse(node), thing=thing
        )

    def _dynamic(self, node: ast.Call, name: str, last: str) -> Iterator[Deed]:
        first = node.args[0] if node.args else None
        if name in words.RUNS or last in ("exec_module", "load_module"):
            plain = name in ("exec", "eval") and isinstance(first, ast.Constant)
            library = first is not None and self._names.path(first).startswith("lib")
            given = name.startswith("runpy.") and first is not None and self._is_given(first)
            if not plain and not given and not (name == "ctypes.CDLL" and library):
                yield self._did("dynamic", node, ast.unparse(node))
        elif name in ("getattr", "builtins.getattr") and first is not None and len(node.args) > 1:
            wanted = Folder(self._constants).fold(node.args[1])
            if self._names.of(first) in words.POWERFUL and not isinstance(wanted, str):
                yield self._did("unreadable", node, ast.unparse(node))

    def _is_given(self, node: ast.expr) -> bool:
        """It comes from the command line: the person's own program, not one that was brought."""
        source = self._names.source(node) if isinstance(node, ast.Name) else node
        return bool(re.match(r"sys\.argv|(?:args|options|opts|ns)\.", ast.unparse(source)))

    def _trust(self, node: ast.Call, last: str) -> Iterator[Deed]:
        off = [
            each.value.value is False
            for each in node.keywords
            if each.arg in ("verify", "verify_ssl", "ssl", "check_hostname")
            and isinstance(each.value, ast.Constant)
        ]
        given = any(_UNSIGNED.search(ast.unparse(each)) for each in node.keywords)
        if any(off) or given or last == "_create_unverified_context":
            yield self._did("trust", node, ast.unparse(node))

    def _written(self, node: ast.Call, name: str, last: str) -> Iterator[Deed]:
        target = self._target(node, name, last)
        if target is None:
            return
        path = self._names.path(target)
        if last in ("extractall", "unpack_archive") and path in ("/", "~"):
            yield self._did("privilege", node, ast.unparse(node))
        kind = next((kind for kind in _TELLING if _lies_in(kind, path)), "")
        kind = "privilege" if path.startswith("/?") else kind
        if kind:
            yield self._did(kind, node, f"writes {path}")

    def _target(self, node: ast.Call, name: str, last: str) -> ast.expr | None:
        """The path that a call writes to, if it writes."""
        method = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in words.OPENS and node.args:
            return node.args[0] if self._writes(node, 1) else None
        if last == "open" and method is not None:
            return method if self._writes(node, 0) else None
        if last in words.WRITES:
            return method
        if name in words.MOVES and len(node.args) > 1:
            return node.args[1]
        return node.args[-1] if last in ("extractall", "unpack_archive") and node.args else None

    def _writes(self, node: ast.Call, at: int) -> bool:
        mode = next((each.value for each in node.keywords if each.arg == "mode"), None)
        if mode is None:
            mode = node.args[at] if len(node.args) > at else None
        how = Folder(self._constants).fold(mode) if mode is not None else "r"
        return bool(re.search(r"[wax+]", str(how or "r")))

    def _loop(self, node: ast.While) -> Iterator[Deed]:
        """No end, no pause, and each round takes more of the machine."""
        if not isinstance(node.test, ast.Constant) or not node.test.value:
            return
        inside = [each for body in node.body for each in ast.walk(body)]
        ends = any(isinstance(e, ast.Break | ast.Return | ast.Raise | ast.Yield) for e in inside)
        calls = [each for each in inside if isinstance(each, ast.Call)]
        called = {self._names.of(each.func).rpartition(".")[2] for each in calls}
        takes = called & words.TAKES
        if takes and not called & words.WAITS and (not ends or "fork" in called):
            yield self._did("floods", node, f"while True: {', '.join(sorted(takes))}")

    def _replaced(self, node: ast.Assign) -> Iterator[Deed]:
        for target in node.targets:
            name = self._names.of(target.value if isinstance(target, ast.Subscript) else target)
            builtin = isinstance(target, ast.Attribute) and name.startswith("builtins.")
            module = name == "sys.modules" and self._is_foreign_module(target)
            if builtin or module or name in ("sys.meta_path", "sys.path_hooks"):
                yield self._did("hooks", node, ast.unparse(target))

    def _is_foreign_module(self, target: ast.expr) -> bool:
        """A module of one's own making may be entered under a name that nobody else has."""
        if not isinstance(target, ast.Subscript):
            return False
        name = Folder(self._constants).fold(target.slice)
        if not isinstance(name, str):
            return True
        first = name.split(".")[0]
        return first in sys.stdlib_module_names or first in popular().values()

    def _place(self, node: ast.expr) -> Iterator[Deed]:
        path = self._names.path(node)
        away = len(path) < 400 and path.startswith(("~", "/", "?/", "$HOME"))
        if away and signs("python", "secret")[0].pattern.search(path):
            yield self._did("credentials", node, path)

    def _said(self, node: ast.expr) -> Iterator[Deed]:
        """A command that stands as text, by whatever road it comes to a shell."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return
        text = node.value
        if not self._starts or " " not in text or len(text) > 4000 or id(node) in self._idle:
            return
        for kind in ("stays", "access", "tracks", "shadows"):
            if found := signs("shell_deeds", kind)[0].pattern.search(text):
                yield self._did(kind, node, found[0].strip())

    def _listed(self, node: ast.List | ast.Tuple) -> Iterator[Deed]:
        """`["git", "push", …]`: a command word by word, whatever starts it."""
        first = node.elts[0] if node.elts else None
        program = Folder(self._constants).fold(first) if first is not None else None
        if not self._starts or not isinstance(program, str) or len(node.elts) < 2:
            return
        command = unfolded(self._names.path(node)[:400])
        for kind in words.BY_COMMAND if re.fullmatch(r"[\w./-]{2,40}", program) else ():
            if found := signs("shell_deeds", kind)[0].pattern.search(command):
                yield self._did(kind, node, found[0].strip())

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Deed]:
        names = {each.name.split(".")[0] for each in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        for name in sorted(names & words.SPIES):
            yield self._did("spies", node, f"imports {name}")

    def _did(self, kind: str, node: ast.AST, detail: str) -> Deed:
        return Deed(kind=kind, file=self._file, line=getattr(node, "lineno", 1), detail=detail)

    def secret_names(self) -> Iterator[tuple[int, str]]:
        """Variables of the environment whose names say that they hold a secret."""
        reads = ("os.getenv", "os.environ.get", "os.environ.pop")
        for node in ast.walk(self._tree):
            wanted: ast.expr | None = None
            if isinstance(node, ast.Subscript) and self._names.of(node.value) == "os.environ":
                wanted = node.slice
            elif isinstance(node, ast.Call) and node.args and self._names.of(node.func) in reads:
                wanted = node.args[0]
            name = Folder(self._constants).fold(wanted) if wanted is not None else None
            if isinstance(name, str) and words.SECRET_NAME.search(name):
                yield getattr(node, "lineno", 1), name


def _lies_in(kind: str, path: str) -> bool:
    return bool(signs("places", kind)[0].pattern.search(path))
