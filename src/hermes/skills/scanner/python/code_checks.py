"""Checks Python code for hidden execution and for harmful combinations in one file."""

import ast
import re
from collections.abc import Callable, Iterator

from hermes.skills.scanner.finding import ScanFinding
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.python.obfuscation import (
    compares_with_fixed_machine,
    compares_with_fixed_time,
    decodes_or_fetches,
    dotted_name,
    find_date_names,
    is_string_trick,
    is_whole_home_or_system,
    spelled_in_numbers,
)
from hermes.skills.scanner.python.static_values import ConstantFolder, find_constants

NETWORK_MODULES = {
    "socket", "urllib", "http", "requests", "httpx", "aiohttp", "urllib3", "ftplib", "smtplib",
    "telnetlib", "websocket", "websockets", "pycurl", "asyncio.streams", "xmlrpc", "imaplib",
    "poplib", "nntplib", "boto3", "dns", "scapy",
}  # fmt: skip
_HARMFUL_CALLS = {
    "rmtree", "system", "popen", "Popen", "exec", "eval", "call", "run", "remove", "unlink",
    "check_call", "check_output", "urlopen", "connect", "execv", "execve", "spawn",
}  # fmt: skip
_WRITING_CALLS = {
    "write_text", "write_bytes", "write", "open", "copy", "copyfile", "symlink", "system", "run",
    "writelines", "call", "Popen",
}  # fmt: skip
_MACHINE_CODE_CALLS = {"mmap", "CFUNCTYPE", "memmove", "VirtualAlloc", "mprotect", "WINFUNCTYPE"}
MAX_PYTHON_CHARS = 512 << 10
_PICKLE_MODULES = {"pickle", "cPickle", "dill", "marshal", "cloudpickle", "shelve", "jsonpickle"}
_CODE_EXECUTION_CALLS = {"exec", "eval", "compile", "__import__", "execfile"}
_INTERPRETER_ATTRIBUTES = {
    "__subclasses__", "__globals__", "__builtins__", "__mro__", "__bases__", "__code__",
    "f_globals", "f_builtins", "gi_frame", "__getattribute__", "__loader__",
}  # fmt: skip
_COMMAND_CALLS = {
    "system", "popen", "run", "call", "Popen", "check_output", "check_call", "spawn", "getoutput",
    "getstatusoutput", "create_subprocess_shell", "create_subprocess_exec",
}  # fmt: skip
CheckShellCommand = Callable[[str, int], Iterator[ScanFinding]]
"""Checks a command that Python would pass to a shell."""


def check_python(
    file: str, text: str, check_shell_command: CheckShellCommand
) -> Iterator[ScanFinding]:
    if len(text) > MAX_PYTHON_CHARS:
        yield _python_finding(file, 1, f"{len(text):,} characters of code are too many to be read")
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield _python_finding(file, 1, f"Python that cannot be read: {error}", blocks=False)
        return
    try:
        yield from _PythonCodeCheck(file, tree, check_shell_command).findings()
    except RecursionError:
        yield _python_finding(file, 1, "code nested too deeply to be read")


class _PythonCodeCheck:
    """Checks one file."""

    def __init__(self, file: str, tree: ast.Module, shell: CheckShellCommand) -> None:
        self._file, self._tree, self._shell = file, tree, shell
        self._names = find_constants(tree)
        self._summary = PythonFileSummary(file, tree)

    def findings(self) -> Iterator[ScanFinding]:
        for call in self._summary.calls:
            yield from self._check_call(call)
        for node in ast.walk(self._tree):
            yield from self._check_interpreter_access(node)
        yield from self._check_hidden_strings()
        yield from self._summary.findings()

    def _check_call(self, call: ast.Call) -> Iterator[ScanFinding]:
        name = dotted_name(call.func)
        last = name.rpartition(".")[2]
        first = call.args[0] if call.args else None
        if last in ("exec", "eval") and first is not None and decodes_or_fetches(first):
            yield self._finding(call, f"{last} of encoded or fetched code")
        elif name in _CODE_EXECUTION_CALLS or name.startswith("builtins."):
            yield from self._check_code_execution(call, name, first)
        elif last in ("import_module", "getattr", "setattr"):
            wanted = first if last == "import_module" else next(iter(call.args[1:]), None)
            owner = dotted_name(first) if first is not None else ""
            if last == "getattr" and owner in ("builtins", "__builtins__"):
                yield self._finding(call, "builtins reached by name")
            elif wanted is not None and self._is_obfuscated(wanted):
                yield self._finding(call, f"{last} with a name that is assembled at run time")
        elif last in ("loads", "load") and name.split(".")[0] in _PICKLE_MODULES:
            packed = first is not None and (
                self._fold(first) is not None or decodes_or_fetches(first)
            )
            yield self._finding(
                call, f"{name} executes its data", blocks=packed or self._summary.network
            )
        elif (
            last == "rmtree"
            and first is not None
            and is_whole_home_or_system(first, self._fold(first))
        ):
            yield self._finding(call, "all files of a user, or of the machine, would be removed")
        yield from self._check_command(call, name, last, first)

    def _check_code_execution(
        self, call: ast.Call, name: str, first: ast.expr | None
    ) -> Iterator[ScanFinding]:
        if first is None or name == "compile":
            return
        if isinstance(first, ast.Constant):
            if name == "__import__" and str(first.value).split(".")[0] in NETWORK_MODULES | {
                "os",
                "subprocess",
            }:
                yield self._finding(call, f"__import__({first.value!r}): a hidden import")
            return
        listed = (
            name == "__import__" and isinstance(first, ast.Name) and self._is_allow_listed(first)
        )
        hidden = (
            self._is_obfuscated(first)
            or decodes_or_fetches(first)
            or name in ("exec", "__import__")
        )
        hidden = hidden and not listed
        yield self._finding(
            call, f"{name} of text that was not inspected", blocks=hidden or self._summary.network
        )

    def _is_allow_listed(self, wanted: ast.Name) -> bool:
        """Whether the name is tested against a list in the file."""
        return any(
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Compare)
            and isinstance(node.test.ops[0], ast.In)
            and isinstance(node.test.comparators[0], ast.Name | ast.Set | ast.Tuple | ast.List)
            and any(isinstance(e, ast.Name) and e.id == wanted.id for e in ast.walk(node.test.left))
            for node in ast.walk(self._tree)
        )

    def _check_command(
        self, call: ast.Call, name: str, last: str, first: ast.expr | None
    ) -> Iterator[ScanFinding]:
        if first is None or not re.match(
            r"(?:os|subprocess|commands|pty|asyncio)\.|popen|Popen|system", name
        ):
            return
        if last in _COMMAND_CALLS:
            words = self._fold(first)
            text = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
            if self._is_obfuscated(first):
                yield self._finding(call, "a command that is assembled so that it cannot be read")
            yield from self._shell(text, call.lineno)

    def _check_interpreter_access(self, node: ast.AST) -> Iterator[ScanFinding]:
        if isinstance(node, ast.Attribute) and node.attr in _INTERPRETER_ATTRIBUTES:
            yield self._finding(node, f"{node.attr} accesses the interpreter")
        elif isinstance(node, ast.Subscript):
            value = node.value
            called = dotted_name(value.func) if isinstance(value, ast.Call) else dotted_name(value)
            behind = called in ("vars", "globals", "locals", "__builtins__", "sys.modules")
            if behind and (self._is_obfuscated(node.slice) or called == "__builtins__"):
                yield self._finding(node, f"{called}[…] with a name that is assembled at run time")
            elif called == "vars" and "builtins" in ast.dump(value):
                yield self._finding(node, "builtins reached by name")

    def _check_hidden_strings(self) -> Iterator[ScanFinding]:
        """Strings whose real content is hidden by tricks."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call | ast.Subscript | ast.BinOp) and self._is_obfuscated(node):
                value = self._fold(node)
                text = value.decode(errors="replace") if isinstance(value, bytes) else value
                numbered = isinstance(text, str) and spelled_in_numbers(node) and text.isalpha()
                if isinstance(text, str) and (
                    numbered or _python_pattern("sensitive").search(text)
                ):
                    yield self._finding(node, f"a string hides {text[:60]!r}")
                    return

    def _fold(self, node: ast.AST) -> object:
        return ConstantFolder(self._names).fold(node)

    def _is_obfuscated(self, node: ast.AST) -> bool:
        """A deliberately hidden name or text."""
        return is_string_trick(node) or (
            isinstance(node, ast.Name) and self._was_obfuscated(node.id)
        )

    def _was_obfuscated(self, name: str) -> bool:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and any(
                getattr(t, "id", "") == name for t in node.targets
            ):
                return is_string_trick(node.value)
        return False

    def _finding(self, where: ast.AST | int, cause: str, *, blocks: bool = True) -> ScanFinding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return _python_finding(self._file, line, cause, blocks=blocks)


def _python_finding(file: str, line: int, cause: str, *, blocks: bool = True) -> ScanFinding:
    return ScanFinding(kind="python", file=file, line=line, cause=cause, blocks=blocks)


class PythonFileSummary:
    """The imports, calls and strings of a file, and combinations of them."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file, self._tree = file, tree
        self._dates = find_date_names(tree)
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._called_names = {dotted_name(call.func).rpartition(".")[2] for call in self.calls}
        self._imports = {name for node in ast.walk(tree) for name in _imported_names(node)}
        self._strings = list(_find_used_strings(tree))
        self.network = bool({name.split(".")[0] for name in self._imports} & NETWORK_MODULES)

    def findings(self) -> Iterator[ScanFinding]:
        yield from self._check_secrets()
        yield from self._check_persistence()
        yield from self._check_fixed_conditions()
        yield from self._check_combinations()

    def _check_secrets(self) -> Iterator[ScanFinding]:
        found = [
            (line, text) for line, text in self._strings if _python_pattern("secret").search(text)
        ]
        for line, text in found:
            if _python_pattern("always").search(text):
                yield self._finding(line, f"it accesses {text[:60]!r}")
        only_ssh = self._imports & {"paramiko", "fabric", "asyncssh"} and not self.network
        if found and self._can_send() and not only_ssh:
            yield self._finding(
                found[0][0], f"it reads {found[0][1][:60]!r} and talks to the network"
            )
        if self._can_send() and self._reads_whole_environment():
            yield self._finding(1, "it takes all environment variables and talks to the network")

    def _can_send(self) -> bool:
        commands = any(re.search(r"\b(?:curl|wget|nc)\b\s", text) for _, text in self._strings)
        return self.network or commands

    def _reads_whole_environment(self) -> bool:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                inside = [dotted_name(each) for each in node.args]
                inside += [
                    dotted_name(each.value)
                    for each in node.keywords
                    if each.arg not in ("env", None)
                ]
                if "os.environ" in inside and dotted_name(node.func) not in ("len", "isinstance"):
                    return True
                if dotted_name(node.func) in (
                    "os.environ.items",
                    "os.environ.copy",
                    "os.environ.values",
                ):
                    return True
            elif isinstance(node, ast.Dict):
                alone = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
                if len(node.keys) == 1 and any(dotted_name(each) == "os.environ" for each in alone):
                    return True
        return False

    def _check_persistence(self) -> Iterator[ScanFinding]:
        writes = self._called_names & _WRITING_CALLS
        for line, text in self._strings:
            if writes and _python_pattern("stays").search(text):
                found = _python_pattern("stays").findall(text)[0]
                yield self._finding(line, f"it would stay installed, by way of {found!r}")
                return

    def _check_fixed_conditions(self) -> Iterator[ScanFinding]:
        """A comparison with a fixed date, host or user controls something harmful."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.If | ast.IfExp | ast.While):
                if not (
                    compares_with_fixed_time(node.test, self._dates)
                    or compares_with_fixed_machine(node.test)
                ):
                    continue
                inside = {
                    dotted_name(c.func).rpartition(".")[2]
                    for c in ast.walk(node)
                    if isinstance(c, ast.Call)
                }
                if inside & _HARMFUL_CALLS or (
                    compares_with_fixed_time(node.test, self._dates)
                    and self._called_names & (_HARMFUL_CALLS - {"run", "call", "connect"})
                ):
                    yield self._finding(
                        node, "it waits for a date, a machine or a user, and then acts"
                    )

    def _check_combinations(self) -> Iterator[ScanFinding]:
        if "dup2" in self._called_names and self._called_names & {
            "socket",
            "connect",
            "create_connection",
        }:
            yield self._finding(1, "a shell is given to a remote host")
        shells = any(re.search(r"/bin/(?:ba|z)?sh|cmd\.exe", text) for _, text in self._strings)
        if "socket" in self._imports and (shells or "pty" in self._imports):
            yield self._finding(1, "a socket and a shell in one file")
        if "ctypes" in self._imports and self._called_names & _MACHINE_CODE_CALLS:
            yield self._finding(1, "machine code is put into memory and run")
        if self.network and self._called_names & {"chmod", "execv", "execve", "execl", "startfile"}:
            yield self._finding(1, "fetched data is made executable")
        for line, text in self._strings:
            if (
                self._can_send()
                and _python_pattern("far").search(text)
                and not re.search(r"\d\.\d+ ?\.?[a-z]", text)
            ):
                yield self._finding(line, f"a bare address of a remote machine: {text[:60]!r}")
                return

    def _finding(self, where: ast.AST | int, cause: str) -> ScanFinding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return ScanFinding(kind="python", file=self._file, line=line, cause=cause)


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


def _find_used_strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings that are used; a string statement is a comment."""
    unused = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in unused
        ):
            yield node.lineno, node.value


def _python_pattern(table: str) -> re.Pattern[str]:
    return load_pattern("python", table)
