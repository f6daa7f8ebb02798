"""Finds what Python code in a skill would do."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from hermes.skills.scanner.action import SkillAction, find_host
from hermes.skills.scanner.deobfuscation import unfold_shell
from hermes.skills.scanner.patterns import load_pattern, read_popular_packages
from hermes.skills.scanner.python.static_values import (
    UNKNOWN_VALUE,
    PythonModule,
    parse_python,
)

_NETWORK_LIBRARY = re.compile(
    r"(?:requests|httpx|aiohttp|urllib3|urllib\.request|http\.client|websockets?|smtplib|ftplib|"
    r"telnetlib|xmlrpc\.client|pycurl|socket|boto3|paramiko|dns\.resolver|imaplib|nntplib|poplib|"
    r"asyncio\.open_connection|ssl)\b"
)
_NETWORK_CALLS = frozenset({
    "post", "put", "patch", "get", "request", "urlopen", "Request", "HTTPSConnection",
    "HTTPConnection", "sendmail", "connect", "create_connection", "sendto", "SMTP", "SMTP_SSL",
    "FTP", "stream", "gethostbyname", "getaddrinfo", "resolve", "query", "Telnet", "ServerProxy",
    "urlretrieve", "head", "ws_connect", "open_connection", "send_message", "storbinary",
    "upload_file", "put_object", "send", "sendall", "delete", "options",
})  # fmt: skip
_SENDING_CALLS = frozenset({
    "post", "put", "patch", "sendto", "sendmail", "storbinary", "upload_file", "put_object",
    "send_message", "create_connection", "gethostbyname", "getaddrinfo", "sendall",
    "HTTPSConnection", "HTTPConnection", "SMTP", "FTP", "SMTP_SSL",
})  # fmt: skip
_PAYLOAD_ARGUMENTS = frozenset({"data", "json", "files", "content", "body", "params", "msg"})
_COMMAND_ACTION_KINDS = (
    "stays", "access", "tracks", "workflows", "trust", "proxy", "destroys", "agent", "money",
    "unprotects", "names",
)  # fmt: skip
_REMOVING_CALLS = frozenset({
    "shutil.rmtree", "os.remove", "os.unlink", "os.removedirs", "os.rmdir",
    "send2trash.send2trash",
})  # fmt: skip
_OUTSIDE_PATH = re.compile(r"[/~\\]|[A-Za-z]:\\|\.\.|\$")
_ABOVE = re.compile(r"\bparents\[(\d+)\]")
_FOREIGN_INPUT = re.compile(
    r"^(?:input|tempfile\..*|sys\.(?:stdin|argv).*|os\.(?:getenv|getcwd|environ.*|path\.expand\w+))$"
    r"|\.(?:expanduser|home|cwd|parse_args|parse_known_args)$"
)
"""By which a program gets paths or texts of others."""
_OUTPUT_PATH = re.compile(
    r"(?:^|[/_\W])(?:te?mp_?\w*|out|output|build|dist|cache|work|workdir|target|scratch|stag\w*|"
    r"lock|pid|marker|partial|part|__pycache__|node_modules|unpacked|extract\w*|dest\w*|test\w*|"
    r"sock\w*)(?:[/_\W]|$)",
    re.IGNORECASE,
)
_WRITING_METHODS = frozenset(
    ["write_text", "write_bytes", "symlink_to", "hardlink_to", "touch", "rename", "replace"]
)
_COPYING_CALLS = frozenset({
    "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.move", "shutil.copytree",
    "os.rename", "os.replace", "os.symlink", "os.link",
})  # fmt: skip
_OPENING_CALLS = frozenset({"open", "io.open", "codecs.open"})
_SPYING_MODULES = frozenset({
    "pynput", "keyboard", "pyperclip", "mss", "pyautogui", "sounddevice", "pyaudio", "ImageGrab",
    "pyscreenshot", "Xlib", "evdev", "mouse",
})  # fmt: skip
_CODE_EXECUTION_CALLS = frozenset({
    "exec", "eval", "builtins.exec", "builtins.eval", "runpy.run_path", "runpy.run_module",
    "execfile", "marshal.loads", "pickle.loads", "pickle.load", "dill.loads", "dill.load",
    "joblib.load", "types.FunctionType", "types.CodeType", "code.InteractiveInterpreter",
    "imp.load_source", "ctypes.CDLL", "importlib.util.spec_from_file_location",
    "importlib.machinery.SourceFileLoader",
})  # fmt: skip
_POWERFUL_MODULES = frozenset({
    "builtins", "__builtins__", "os", "subprocess", "sys", "importlib", "socket", "shutil",
    "posix",
})  # fmt: skip
_DUMPING_CALLS = frozenset(
    ["dict", "json.dumps", "str", "repr", "list", "sorted", "pprint.pformat", "print"]
)
_WHOLE_ENVIRONMENT_CALLS = frozenset(["os.environ.items", "os.environ.copy", "os.environ.values"])
_INTERPRETER_HOOK = re.compile(
    r"sys\.(?:meta_path|path_hooks)\.|sys\.(?:settrace|setprofile)$|sys\.addaudithook$"
)
_RESOURCE_CONSUMING_CALLS = frozenset({
    "fork", "Popen", "Process", "Thread", "spawn", "append", "extend", "mkdir", "write",
    "write_text", "write_bytes", "bytearray", "mkdtemp",
})  # fmt: skip
_WAITING_CALLS = frozenset(
    ["sleep", "wait", "get", "recv", "accept", "join", "select", "readline", "input", "read"]
)
SECRET_VARIABLE_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPH|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|_KEY$|_PAT$|SESSION",
    re.IGNORECASE,
)
_ALL_INTERFACES = re.compile(r"0\.0\.0\.0|\(\s*['\"]{2}\s*,|::")
_LOCAL_DATA_CALL = re.compile(
    r"^(?:open|input|io\.open|subprocess|os\.(?:environ|getenv|popen|system|listdir|walk|scandir|"
    r"uname|getlogin)|glob|getpass|platform|socket\.gethostname|sqlite3|pwd)\b|"
    r"\.(?:read_text|read_bytes|home|iterdir|rglob|glob|expanduser|open)$"
)
_PROCESS_START_CALL = re.compile(
    r"subprocess\b|os\.(?:system|popen|exec|spawn|posix_spawn)|pty\.|asyncio\.create_sub"
)
_UNVERIFIED_TOKEN = re.compile(r"['\"]verify_signature['\"]: False|^algorithms?=\[?['\"]none['\"]")
_VARIABLE_READS = ("os.getenv", "os.environ.get", "os.environ.pop")
_WRITE_ACTION_KINDS = ("agent", "workflows", "names", "access", "stays", "tracks", "privilege")


@lru_cache(maxsize=1024)
def find_python_actions(file: str, text: str) -> tuple[SkillAction, ...]:
    """Several checks ask for those of one file."""
    try:
        reader = _PythonActionReader(file, parse_python(text))
        found = list(reader.actions())
        if any(action.kind == "network" for action in found):
            found += reader.secret_names()
    except (ValueError, RecursionError, MemoryError):
        return ()
    return tuple(found)


class _PythonActionReader:
    """Finds what one file calls, writes, removes, replaces and imports."""

    def __init__(self, file: str, module: PythonModule) -> None:
        self._file, self._module, self._names = file, module, module.names
        used = {
            self._names.full_name(each)
            for each in module.nodes
            if isinstance(each, ast.Attribute | ast.Name)
        }
        self._starts_processes = any(map(_PROCESS_START_CALL.match, used))
        self._reads_local_data = any(map(_LOCAL_DATA_CALL.search, used))

    def actions(self) -> Iterator[SkillAction]:
        for node in self._module.nodes:
            if isinstance(node, ast.Call):
                yield from self._call_actions(node)
                yield from self._credential_actions(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import_actions(node)
            elif isinstance(node, ast.BinOp | ast.JoinedStr | ast.Constant):
                yield from self._credential_actions(node)
            elif isinstance(node, ast.List | ast.Tuple):
                yield from self._command_list_actions(node)
            elif isinstance(node, ast.While):
                yield from self._flooding_actions(node)
            elif isinstance(node, ast.Assign):
                yield from self._hook_actions(node)
        if self._starts_processes:
            for string in self._module.strings:
                yield from self._command_text_actions(string)

    def _call_actions(self, node: ast.Call) -> Iterator[SkillAction]:
        name = self._names.full_name(node.func)
        last = name.rpartition(".")[2]
        if last in _NETWORK_CALLS and (out := self._network_action(node, name)):
            yield out
        if name in _REMOVING_CALLS or last in ("unlink", "rmtree", "rmdir"):
            yield from self._removal_actions(node, name)
        if _INTERPRETER_HOOK.match(name):
            yield self._build_action("hooks", node, ast.unparse(node))
        yield from self._dynamic_code_actions(node, name, last)
        yield from self._environment_actions(node, name)
        yield from self._trust_actions(node, last)
        yield from self._write_actions(node, name, last)
        serves = last == "bind" or last.endswith(("HTTPServer", "TCPServer"))
        if serves and node.args and _ALL_INTERFACES.search(ast.unparse(node.args[0])):
            yield self._build_action("listens", node, ast.unparse(node))

    def _network_action(self, node: ast.Call, name: str) -> SkillAction | None:
        """Return None when the call does not use the network."""
        last = name.rpartition(".")[2]
        named = next((each.value for each in node.keywords if each.arg in ("url", "host")), None)
        at = 1 if last in ("request", "stream") and len(node.args) > 1 else 0
        where = named if named is not None else (node.args[at] if node.args else None)
        text = self._names.resolve_path(where) if where is not None else ""
        host = find_host(text)
        if not host and not _NETWORK_LIBRARY.match(name):
            return None
        bare = text.split(" ")[0]
        host = host or (bare if re.fullmatch(r"[\w.?-]+\.[\w.?-]+", bare) else "")
        carries = (last in ("urlopen", "Request") and len(node.args) > 1) or any(
            each.arg in _PAYLOAD_ARGUMENTS for each in node.keywords
        )
        # An address with a part known only at run time can carry local data.
        dynamic = self._reads_local_data and UNKNOWN_VALUE in text.split("//", 1)[-1]
        sends = last in _SENDING_CALLS or carries or dynamic
        source = ast.unparse(node)[:80]
        return SkillAction("network", self._file, node.lineno, source, host=host, sends=sends)

    def _environment_actions(self, node: ast.Call, name: str) -> Iterator[SkillAction]:
        shows = name in _DUMPING_CALLS and any(
            self._names.full_name(each) == "os.environ" for each in node.args
        )
        # A changed copy is usual when a program is started.
        for_child = name == "os.environ.copy" and any(
            isinstance(each, ast.keyword) and each.arg == "env" for each in self._module.nodes
        )
        if shows or (name in _WHOLE_ENVIRONMENT_CALLS and not for_child):
            yield self._build_action("environment", node, ast.unparse(node))

    def _removal_actions(self, node: ast.Call, name: str) -> Iterator[SkillAction]:
        target = node.args[0] if name in _REMOVING_CALLS and node.args else node.func
        if isinstance(target, ast.Attribute):
            target = target.value
        source, path = ast.unparse(target), self._names.resolve_path(target)
        is_output = _OUTPUT_PATH.search
        if is_output(source) or is_output(path) or "tempfile" in source:
            return
        kind = next((kind for kind in ("agent", "tracks") if _path_matches(kind, path)), "delete")
        kind = "tracks" if "/var/log" in path else kind
        removed = path if kind == "delete" else ""
        yield SkillAction(kind, self._file, node.lineno, ast.unparse(node), removed)

    def _dynamic_code_actions(self, node: ast.Call, name: str, last: str) -> Iterator[SkillAction]:
        first = node.args[0] if node.args else None
        if name in _CODE_EXECUTION_CALLS or last in ("exec_module", "load_module"):
            plain = name in ("exec", "eval") and isinstance(first, ast.Constant)
            library = first is not None and self._names.resolve_path(first).startswith("lib")
            given = name.startswith("runpy.") and self._is_command_line_value(first)
            if not plain and not given and not (name == "ctypes.CDLL" and library):
                found = self._build_action("dynamic", node, ast.unparse(node))
                yield replace(found, own_files=not self._names_other_files())
        elif name in ("getattr", "builtins.getattr") and first is not None and len(node.args) > 1:
            known = isinstance(self._module.fold(node.args[1]), str)
            if self._names.full_name(first) in _POWERFUL_MODULES and not known:
                yield self._build_action("unreadable", node, ast.unparse(node))

    def _names_other_files(self) -> bool:
        """Return whether it may read what is not part of the skill, or its input."""
        if any(_OUTSIDE_PATH.match(each.value) for each in self._module.strings):
            return True
        depth = self._file.count("/") + 1
        source = ast.unparse(self._module.tree)
        above = rf"(?:\.parent\b){{{depth + 1}}}|(?:dirname\(){{{depth + 1}}}"
        if re.search(above, source) or any(int(n) >= depth for n in _ABOVE.findall(source)):
            return True
        names = (n for n in self._module.nodes if isinstance(n, ast.Attribute | ast.Name))
        return any(_FOREIGN_INPUT.search(self._names.full_name(each)) for each in names)

    def _is_command_line_value(self, node: ast.expr | None) -> bool:
        """Return whether it comes from the command line, so the user chose it."""
        source = self._names.first_value(node) if isinstance(node, ast.Name) else node
        if source is None:
            return False
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
        if name in _OPENING_CALLS and node.args:
            return node.args[0] if self._writes(node, 1) else None
        if last == "open" and method is not None:
            return method if self._writes(node, 0) else None
        if last in _WRITING_METHODS:
            return method
        if name in _COPYING_CALLS and len(node.args) > 1:
            return node.args[1]
        return node.args[-1] if last in ("extractall", "unpack_archive") and node.args else None

    def _writes(self, node: ast.Call, at: int) -> bool:
        mode = next((each.value for each in node.keywords if each.arg == "mode"), None)
        if mode is None:
            mode = node.args[at] if len(node.args) > at else None
        how = self._module.fold(mode) if mode is not None else "r"
        return bool(re.search(r"[wax+]", str(how or "r")))

    def _flooding_actions(self, node: ast.While) -> Iterator[SkillAction]:
        """An endless loop without pause that uses more resources in each round."""
        if not isinstance(node.test, ast.Constant) or not node.test.value:
            return
        inside = [each for body in node.body for each in ast.walk(body)]
        ends = any(isinstance(e, ast.Break | ast.Return | ast.Raise | ast.Yield) for e in inside)
        calls = [each for each in inside if isinstance(each, ast.Call)]
        called = {self._names.full_name(each.func).rpartition(".")[2] for each in calls}
        takes = called & _RESOURCE_CONSUMING_CALLS
        if takes and not called & _WAITING_CALLS and (not ends or "fork" in called):
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
        """Return whether it replaces a module of the standard library or of a well-known
        package."""
        if not isinstance(target, ast.Subscript):
            return False
        name = self._module.fold(target.slice)
        if not isinstance(name, str):
            return True
        first = name.split(".")[0]
        return first in sys.stdlib_module_names or first in read_popular_packages().values()

    def _credential_actions(self, node: ast.expr) -> Iterator[SkillAction]:
        path = self._names.resolve_path(node)
        away = len(path) < 400 and path.startswith(("~", "/", "?/", "$HOME"))
        if away and load_pattern("python", "secret").search(path):
            yield self._build_action("credentials", node, path)

    def _command_text_actions(self, string: ast.Constant) -> Iterator[SkillAction]:
        """A command in a string, in a file that starts processes."""
        text = str(string.value)
        if " " not in text or len(text) > 4000:
            return
        for kind in ("stays", "access", "tracks", "shadows"):
            if found := load_pattern("shell_actions", kind).search(text):
                yield self._build_action(kind, string, found[0].strip())

    def _command_list_actions(self, node: ast.List | ast.Tuple) -> Iterator[SkillAction]:
        """A command as a list: `["git", "push", …]`."""
        first = node.elts[0] if node.elts else None
        program = self._module.fold(first) if first is not None else None
        if not self._starts_processes or not isinstance(program, str) or len(node.elts) < 2:
            return
        command = unfold_shell(self._names.resolve_path(node)[:400])
        if not re.fullmatch(r"[\w./-]{2,40}", program):
            return
        for kind in _COMMAND_ACTION_KINDS:
            if found := load_pattern("shell_actions", kind).search(command):
                yield self._build_action(kind, node, found[0].strip())

    def _import_actions(self, node: ast.Import | ast.ImportFrom) -> Iterator[SkillAction]:
        names = {each.name.split(".")[0] for each in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
        for name in sorted(names & _SPYING_MODULES):
            yield self._build_action("spies", node, f"imports {name}")

    def _build_action(self, kind: str, node: ast.AST, detail: str) -> SkillAction:
        return SkillAction(kind, self._file, getattr(node, "lineno", 1), detail)

    def secret_names(self) -> Iterator[SkillAction]:
        """Environment variables whose names indicate a secret."""
        for node in self._module.nodes:
            if isinstance(node, ast.Subscript):
                read, wanted = self._names.full_name(node.value) == "os.environ", node.slice
            elif isinstance(node, ast.Call) and node.args:
                read, wanted = self._names.full_name(node.func) in _VARIABLE_READS, node.args[0]
            else:
                continue
            name = self._module.fold(wanted) if read else None
            if isinstance(name, str) and SECRET_VARIABLE_NAME.search(name):
                yield self._build_action("secret-name", node, name)


def _path_matches(kind: str, path: str) -> bool:
    return bool(load_pattern("paths_and_hosts", kind).search(path))
