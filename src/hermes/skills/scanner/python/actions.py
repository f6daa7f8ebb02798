"""Finds what Python code in a skill would do."""

import ast
import re
import sys
from collections.abc import Iterator

from hermes.skills.scanner.action import SkillAction, find_host
from hermes.skills.scanner.deobfuscation import unfold_shell
from hermes.skills.scanner.patterns import load_pattern, read_popular_packages
from hermes.skills.scanner.python import api_names
from hermes.skills.scanner.python.api_names import NETWORK_LIBRARY, PAYLOAD_ARGUMENTS, SENDING_CALLS
from hermes.skills.scanner.python.static_values import (
    UNKNOWN_VALUE,
    ConstantFolder,
    NameResolver,
    find_constants,
)

_UNVERIFIED_TOKEN = re.compile(r"['\"]verify_signature['\"]: False|^algorithms?=\[?['\"]none['\"]")
_WRITE_ACTION_KINDS = ("agent", "workflows", "names", "access", "stays", "tracks", "privilege")


def find_python_actions(file: str, text: str) -> list[SkillAction]:
    try:
        reader = _PythonActionReader(file, ast.parse(text))
        found = list(reader.actions())
        if any(action.kind == "network" for action in found):
            for line, name in reader.secret_names():
                found.append(SkillAction(kind="secret-name", file=file, line=line, detail=name))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return found


class _PythonActionReader:
    """Finds what one file calls, writes, removes, replaces and imports."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file, self._tree = file, tree
        self._constants = find_constants(tree)
        self._names = NameResolver(tree, self._constants)
        self._unused_strings = {
            id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)
        }
        self._starts_processes = any(
            api_names.PROCESS_START_CALL.match(self._names.full_name(each))
            for each in ast.walk(tree)
            if isinstance(each, ast.Attribute | ast.Name)
        )
        self._reads_local_data = any(
            api_names.LOCAL_DATA_CALL.search(self._names.full_name(each))
            for each in ast.walk(tree)
            if isinstance(each, ast.Attribute | ast.Name)
        )

    def actions(self) -> Iterator[SkillAction]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                yield from self._call_actions(node)
                yield from self._credential_actions(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import_actions(node)
            elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant):
                yield from self._credential_actions(node)
                yield from self._command_text_actions(node)
            elif isinstance(node, ast.List | ast.Tuple):
                yield from self._command_list_actions(node)
            elif isinstance(node, ast.While):
                yield from self._flooding_actions(node)
            elif isinstance(node, ast.Assign):
                yield from self._hook_actions(node)

    def _call_actions(self, node: ast.Call) -> Iterator[SkillAction]:
        name = self._names.full_name(node.func)
        last = name.rpartition(".")[2]
        if last in api_names.NETWORK_CALLS and (out := self._network_action(node, name)):
            yield out
        if name in api_names.REMOVING_CALLS or last in ("unlink", "rmtree", "rmdir"):
            yield from self._removal_actions(node, name)
        if api_names.INTERPRETER_HOOK.match(name):
            yield self._build_action("hooks", node, ast.unparse(node))
        yield from self._dynamic_code_actions(node, name, last)
        yield from self._environment_actions(node, name)
        yield from self._trust_actions(node, last)
        yield from self._write_actions(node, name, last)
        serves = last == "bind" or last.endswith(("HTTPServer", "TCPServer"))
        if serves and node.args and api_names.ALL_INTERFACES.search(ast.unparse(node.args[0])):
            yield self._build_action("listens", node, ast.unparse(node))

    def _network_action(self, node: ast.Call, name: str) -> SkillAction | None:
        return find_network_action(
            self._file, self._names, node, name, reads_local_data=self._reads_local_data
        )

    def _environment_actions(self, node: ast.Call, name: str) -> Iterator[SkillAction]:
        shows = name in api_names.DUMPING_CALLS and any(
            self._names.full_name(e) == "os.environ" for e in node.args
        )
        if shows or (
            name in api_names.WHOLE_ENVIRONMENT_CALLS and not self._copies_for_child(name)
        ):
            yield self._build_action("environment", node, ast.unparse(node))

    def _copies_for_child(self, name: str) -> bool:
        """A changed copy is usual when a program is started."""
        return name == "os.environ.copy" and any(
            isinstance(each, ast.keyword) and each.arg == "env" for each in ast.walk(self._tree)
        )

    def _removal_actions(self, node: ast.Call, name: str) -> Iterator[SkillAction]:
        target = node.args[0] if name in api_names.REMOVING_CALLS and node.args else node.func
        if isinstance(target, ast.Attribute):
            target = target.value
        source, path = ast.unparse(target), self._names.resolve_path(target)
        is_output = api_names.OUTPUT_PATH.search
        if is_output(source) or is_output(path) or "tempfile" in source:
            return
        kind = next((kind for kind in ("agent", "tracks") if _path_matches(kind, path)), "delete")
        kind = "tracks" if "/var/log" in path else kind
        removed = path if kind == "delete" else ""
        yield SkillAction(
            kind=kind,
            file=self._file,
            line=node.lineno,
            detail=ast.unparse(node),
            removed_path=removed,
        )

    def _dynamic_code_actions(self, node: ast.Call, name: str, last: str) -> Iterator[SkillAction]:
        first = node.args[0] if node.args else None
        if name in api_names.CODE_EXECUTION_CALLS or last in ("exec_module", "load_module"):
            plain = name in ("exec", "eval") and isinstance(first, ast.Constant)
            library = first is not None and self._names.resolve_path(first).startswith("lib")
            given = (
                name.startswith("runpy.")
                and first is not None
                and self._is_command_line_value(first)
            )
            if not plain and not given and not (name == "ctypes.CDLL" and library):
                yield self._build_action("dynamic", node, ast.unparse(node))
        elif name in ("getattr", "builtins.getattr") and first is not None and len(node.args) > 1:
            wanted = ConstantFolder(self._constants).fold(node.args[1])
            if self._names.full_name(first) in api_names.POWERFUL_MODULES and not isinstance(
                wanted, str
            ):
                yield self._build_action("unreadable", node, ast.unparse(node))

    def _is_command_line_value(self, node: ast.expr) -> bool:
        """Whether it comes from the command line, so the user chose it."""
        source = self._names.first_value(node) if isinstance(node, ast.Name) else node
        return bool(re.match(r"sys\.argv|(?:args|options|opts|ns)\.", ast.unparse(source)))

    def _trust_actions(self, node: ast.Call, last: str) -> Iterator[SkillAction]:
        off = [
            each.value.value is False
            for each in node.keywords
            if each.arg in ("verify", "verify_ssl", "ssl", "check_hostname")
            and isinstance(each.value, ast.Constant)
        ]
        given = any(_UNVERIFIED_TOKEN.search(ast.unparse(each)) for each in node.keywords)
        if any(off) or given or last == "_create_unverified_context":
            yield self._build_action("trust", node, ast.unparse(node))

    def _write_actions(self, node: ast.Call, name: str, last: str) -> Iterator[SkillAction]:
        target = self._written_path(node, name, last)
        if target is None:
            return
        path = self._names.resolve_path(target)
        if last in ("extractall", "unpack_archive") and path in ("/", "~"):
            yield self._build_action("privilege", node, ast.unparse(node))
        kind = next((kind for kind in _WRITE_ACTION_KINDS if _path_matches(kind, path)), "")
        kind = "privilege" if path.startswith("/?") else kind
        if kind:
            yield self._build_action(kind, node, f"writes {path}")

    def _written_path(self, node: ast.Call, name: str, last: str) -> ast.expr | None:
        """The path that a call writes to, if it writes."""
        method = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in api_names.OPENING_CALLS and node.args:
            return node.args[0] if self._writes(node, 1) else None
        if last == "open" and method is not None:
            return method if self._writes(node, 0) else None
        if last in api_names.WRITING_METHODS:
            return method
        if name in api_names.COPYING_CALLS and len(node.args) > 1:
            return node.args[1]
        return node.args[-1] if last in ("extractall", "unpack_archive") and node.args else None

    def _writes(self, node: ast.Call, at: int) -> bool:
        mode = next((each.value for each in node.keywords if each.arg == "mode"), None)
        if mode is None:
            mode = node.args[at] if len(node.args) > at else None
        how = ConstantFolder(self._constants).fold(mode) if mode is not None else "r"
        return bool(re.search(r"[wax+]", str(how or "r")))

    def _flooding_actions(self, node: ast.While) -> Iterator[SkillAction]:
        """An endless loop without pause that uses more resources in each round."""
        if not isinstance(node.test, ast.Constant) or not node.test.value:
            return
        inside = [each for body in node.body for each in ast.walk(body)]
        ends = any(isinstance(e, ast.Break | ast.Return | ast.Raise | ast.Yield) for e in inside)
        calls = [each for each in inside if isinstance(each, ast.Call)]
        called = {self._names.full_name(each.func).rpartition(".")[2] for each in calls}
        takes = called & api_names.RESOURCE_CONSUMING_CALLS
        if takes and not called & api_names.WAITING_CALLS and (not ends or "fork" in called):
            yield self._build_action("floods", node, f"while True: {', '.join(sorted(takes))}")

    def _hook_actions(self, node: ast.Assign) -> Iterator[SkillAction]:
        for target in node.targets:
            name = self._names.full_name(
                target.value if isinstance(target, ast.Subscript) else target
            )
            builtin = isinstance(target, ast.Attribute) and name.startswith("builtins.")
            module = name == "sys.modules" and self._is_foreign_module(target)
            if builtin or module or name in ("sys.meta_path", "sys.path_hooks"):
                yield self._build_action("hooks", node, ast.unparse(target))

    def _is_foreign_module(self, target: ast.expr) -> bool:
        """Whether it replaces a module of the standard library or of a well-known package."""
        if not isinstance(target, ast.Subscript):
            return False
        name = ConstantFolder(self._constants).fold(target.slice)
        if not isinstance(name, str):
            return True
        first = name.split(".")[0]
        return first in sys.stdlib_module_names or first in read_popular_packages().values()

    def _credential_actions(self, node: ast.expr) -> Iterator[SkillAction]:
        path = self._names.resolve_path(node)
        away = len(path) < 400 and path.startswith(("~", "/", "?/", "$HOME"))
        if away and load_pattern("python", "secret").search(path):
            yield self._build_action("credentials", node, path)

    def _command_text_actions(self, node: ast.expr) -> Iterator[SkillAction]:
        """A command in a string, in a file that starts processes."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return
        text = node.value
        if (
            not self._starts_processes
            or " " not in text
            or len(text) > 4000
            or id(node) in self._unused_strings
        ):
            return
        for kind in ("stays", "access", "tracks", "shadows"):
            if found := load_pattern("shell_actions", kind).search(text):
                yield self._build_action(kind, node, found[0].strip())

    def _command_list_actions(self, node: ast.List | ast.Tuple) -> Iterator[SkillAction]:
        """A command as a list: `["git", "push", …]`."""
        first = node.elts[0] if node.elts else None
        program = ConstantFolder(self._constants).fold(first) if first is not None else None
        if not self._starts_processes or not isinstance(program, str) or len(node.elts) < 2:
            return
        command = unfold_shell(self._names.resolve_path(node)[:400])
        if not re.fullmatch(r"[\w./-]{2,40}", program):
            return
        for kind in api_names.COMMAND_ACTION_KINDS:
            if found := load_pattern("shell_actions", kind).search(command):
                yield self._build_action(kind, node, found[0].strip())

    def _import_actions(self, node: ast.Import | ast.ImportFrom) -> Iterator[SkillAction]:
        names = {each.name.split(".")[0] for each in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        for name in sorted(names & api_names.SPYING_MODULES):
            yield self._build_action("spies", node, f"imports {name}")

    def _build_action(self, kind: str, node: ast.AST, detail: str) -> SkillAction:
        return SkillAction(
            kind=kind, file=self._file, line=getattr(node, "lineno", 1), detail=detail
        )

    def secret_names(self) -> Iterator[tuple[int, str]]:
        """Environment variables whose names indicate a secret."""
        reads = ("os.getenv", "os.environ.get", "os.environ.pop")
        for node in ast.walk(self._tree):
            wanted: ast.expr | None = None
            if (
                isinstance(node, ast.Subscript)
                and self._names.full_name(node.value) == "os.environ"
            ):
                wanted = node.slice
            elif (
                isinstance(node, ast.Call)
                and node.args
                and self._names.full_name(node.func) in reads
            ):
                wanted = node.args[0]
            name = ConstantFolder(self._constants).fold(wanted) if wanted is not None else None
            if isinstance(name, str) and api_names.SECRET_VARIABLE_NAME.search(name):
                yield getattr(node, "lineno", 1), name


def _path_matches(kind: str, path: str) -> bool:
    return bool(load_pattern("paths_and_hosts", kind).search(path))


def find_network_action(
    file: str, names: NameResolver, node: ast.Call, name: str, *, reads_local_data: bool = True
) -> SkillAction | None:
    """None when the call does not use the network. `reads_local_data`: the file reads local data
    that an address could carry."""
    last = name.rpartition(".")[2]
    text = _resolve_address(names, node, last)
    if not NETWORK_LIBRARY.match(name) and not find_host(text):
        return None
    bare = text.split(" ")[0]
    host = find_host(text) or (bare if re.fullmatch(r"[\w.?-]+\.[\w.?-]+", bare) else "")
    return SkillAction(
        kind="network",
        file=file,
        line=node.lineno,
        detail=ast.unparse(node)[:80],
        host=host,
        sends=last in SENDING_CALLS
        or _carries_data(node, last)
        or (reads_local_data and UNKNOWN_VALUE in text.split("//", 1)[-1]),
    )


def _resolve_address(names: NameResolver, node: ast.Call, last: str) -> str:
    named = next((each.value for each in node.keywords if each.arg in ("url", "host")), None)
    at = 1 if last in ("request", "stream") and len(node.args) > 1 else 0
    where = named if named is not None else (node.args[at] if node.args else None)
    return names.resolve_path(where) if where is not None else ""


def _carries_data(node: ast.Call, last: str) -> bool:
    if last in ("urlopen", "Request") and len(node.args) > 1:
        return True
    return any(each.arg in PAYLOAD_ARGUMENTS for each in node.keywords)
