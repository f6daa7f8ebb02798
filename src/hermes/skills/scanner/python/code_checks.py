"""Checks Python code for hidden execution and for harmful combinations in one file."""

import ast
import re
from collections.abc import Callable, Iterator

from hermes.skills.scanner.finding import ScanFinding
from hermes.skills.scanner.patterns import load_pattern
from hermes.skills.scanner.python.static_values import dotted_name, last_name, parse_python

NETWORK_MODULES = {
    "socket", "urllib", "http", "requests", "httpx", "aiohttp", "urllib3", "ftplib", "smtplib",
    "telnetlib", "websocket", "websockets", "pycurl", "asyncio.streams", "xmlrpc", "imaplib",
    "poplib", "nntplib", "boto3", "dns", "scapy",
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
_DECODING_CALLS = {
    "decode", "fromhex", "b64decode", "unhexlify", "b85decode", "a85decode", "decompress",
    "b32decode", "b16decode", "urlsafe_b64decode",
}  # fmt: skip
_DECODED_OR_FETCHED = re.compile(
    r"decode|decompress|fromhex|unhexlify|urlopen|requests\.|\.read\(|httpx|recv\(|rot|"
    r"\.text\b|\.content\b"
)
_WHOLE_HOME = re.compile(
    r"expanduser\(['\"]~/?['\"]\)$|Path\.home\(\)$|environ\[['\"]HOME['\"]\]$|"
    r"environ\.get\(['\"]HOME"
)
_SYSTEM_FOLDERS = ("", "~", "/home", "/etc", "/usr", "/var", "C:\\")
CheckShellCommand = Callable[[str, int], Iterator[ScanFinding]]
"""Checks a command that Python would pass to a shell."""


def check_python(
    file: str, text: str, check_shell_command: CheckShellCommand
) -> Iterator[ScanFinding]:
    if len(text) > MAX_PYTHON_CHARS:
        cause = f"{len(text):,} characters of code are too many to be read"
        yield ScanFinding("python", file, 1, cause)
        return
    module = parse_python(text)
    if module.error:
        yield ScanFinding("python", file, 1, f"Python that cannot be read: {module.error}", False)
        return
    try:
        yield from _PythonCodeCheck(file, text, check_shell_command).findings()
    except RecursionError:
        yield ScanFinding("python", file, 1, "code nested too deeply to be read")


class _PythonCodeCheck:
    """Checks one file: single calls, and combinations of imports, calls and strings."""

    def __init__(self, file: str, text: str, shell: CheckShellCommand) -> None:
        self._file, self._module, self._shell = file, parse_python(text), shell
        self._called_names = {last_name(call.func) for call in self._module.calls}
        self._imports: set[str] = set()
        for node in self._module.nodes:
            if isinstance(node, ast.Import):
                self._imports |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                self._imports.add(node.module)
        self._network = bool({name.split(".")[0] for name in self._imports} & NETWORK_MODULES)

    def findings(self) -> Iterator[ScanFinding]:
        for call in self._module.calls:
            yield from self._check_call(call)
        for node in self._module.nodes:
            yield from self._check_interpreter_access(node)
        yield from self._check_hidden_strings()
        yield from self._check_strings()
        yield from self._check_combinations()

    def _check_call(self, call: ast.Call) -> Iterator[ScanFinding]:
        name, last = dotted_name(call.func), last_name(call.func)
        first = call.args[0] if call.args else None
        if last in ("exec", "eval") and first is not None and _decodes_or_fetches(first):
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
                self._module.fold(first) is not None or _decodes_or_fetches(first)
            )
            yield self._finding(call, f"{name} executes its data", blocks=packed or self._network)
        elif last == "rmtree" and first is not None and self._is_whole_home_or_system(first):
            yield self._finding(call, "all files of a user, or of the machine, would be removed")
        yield from self._check_command(call, name, last, first)

    def _check_code_execution(
        self, call: ast.Call, name: str, first: ast.expr | None
    ) -> Iterator[ScanFinding]:
        if first is None or name == "compile":
            return
        imports = name == "__import__"
        if isinstance(first, ast.Constant):
            module = str(first.value).split(".")[0]
            if imports and module in NETWORK_MODULES | {"os", "subprocess"}:
                yield self._finding(call, f"__import__({first.value!r}): a hidden import")
            return
        hidden = (
            imports or name == "exec" or self._is_obfuscated(first) or _decodes_or_fetches(first)
        )
        if imports and isinstance(first, ast.Name) and self._is_allow_listed(first):
            hidden = False
        cause = f"{name} of text that was not inspected"
        yield self._finding(call, cause, blocks=hidden or self._network)

    def _is_allow_listed(self, wanted: ast.Name) -> bool:
        """Return whether the name is tested against a list in the file."""
        return any(
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Compare)
            and isinstance(node.test.ops[0], ast.In)
            and isinstance(node.test.comparators[0], ast.Name | ast.Set | ast.Tuple | ast.List)
            and any(isinstance(e, ast.Name) and e.id == wanted.id for e in ast.walk(node.test.left))
            for node in self._module.nodes
        )

    def _is_whole_home_or_system(self, node: ast.expr) -> bool:
        folded = self._module.fold(node)
        return bool(_WHOLE_HOME.search(ast.unparse(node))) or (
            isinstance(folded, str) and folded.rstrip("/*") in _SYSTEM_FOLDERS
        )

    def _check_command(
        self, call: ast.Call, name: str, last: str, first: ast.expr | None
    ) -> Iterator[ScanFinding]:
        starts = re.match(r"(?:os|subprocess|commands|pty|asyncio)\.|popen|Popen|system", name)
        if first is None or not starts or last not in _COMMAND_CALLS:
            return
        words = self._module.fold(first)
        text = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
        if self._is_obfuscated(first):
            yield self._finding(call, "a command that is assembled so that it cannot be read")
        yield from self._shell(text, call.lineno)

    def _check_interpreter_access(self, node: ast.AST) -> Iterator[ScanFinding]:
        if isinstance(node, ast.Attribute) and node.attr in _INTERPRETER_ATTRIBUTES:
            yield self._finding(node, f"{node.attr} accesses the interpreter")
        elif isinstance(node, ast.Subscript):
            value = node.value
            called = dotted_name(value.func if isinstance(value, ast.Call) else value)
            behind = called in ("vars", "globals", "locals", "__builtins__", "sys.modules")
            if behind and (self._is_obfuscated(node.slice) or called == "__builtins__"):
                yield self._finding(node, f"{called}[…] with a name that is assembled at run time")
            elif called == "vars" and "builtins" in ast.dump(value):
                yield self._finding(node, "builtins reached by name")

    def _check_hidden_strings(self) -> Iterator[ScanFinding]:
        """Strings whose real content is hidden by tricks."""
        for node in self._module.nodes:
            if isinstance(node, ast.Call | ast.Subscript | ast.BinOp) and self._is_obfuscated(node):
                value = self._module.fold(node)
                text = value.decode(errors="replace") if isinstance(value, bytes) else value
                if isinstance(text, str) and (
                    (_spelled_in_numbers(node) and text.isalpha())
                    or load_pattern("python", "sensitive").search(text)
                ):
                    yield self._finding(node, f"a string hides {text[:60]!r}")
                    return

    def _is_obfuscated(self, node: ast.AST) -> bool:
        """A deliberately hidden name or text, also when it was assigned to a name before."""
        if isinstance(node, ast.Name):
            assigned = (
                each.value
                for each in self._module.nodes
                if isinstance(each, ast.Assign)
                and any(getattr(target, "id", "") == node.id for target in each.targets)
            )
            value = next(assigned, None)
            return value is not None and is_string_trick(value)
        return is_string_trick(node)

    def _check_strings(self) -> Iterator[ScanFinding]:
        writes = self._called_names & _WRITING_CALLS
        stays, listings = load_pattern("python", "stays"), self._crontab_listings()
        for string in self._module.strings:
            if load_pattern("python", "always").search(string.value):
                yield self._finding(string, f"it accesses {string.value[:60]!r}")
        for string in self._module.strings:
            if string in listings:
                continue
            if writes and (found := stays.search(string.value)):
                yield self._finding(string, f"it would stay installed, by way of {found[0]!r}")
                return

    def _crontab_listings(self) -> list[ast.expr]:
        """Return the word `crontab` of each command that only lists, where it is run."""
        commands = [call.args[0] for call in self._module.calls if call.args]
        return [
            each.elts[0]
            for each in commands
            if isinstance(each, ast.List) and self._module.fold(each) == ["crontab", "-l"]
        ]

    def _check_combinations(self) -> Iterator[ScanFinding]:
        called, texts = self._called_names, [each.value for each in self._module.strings]
        if "dup2" in called and called & {"socket", "connect", "create_connection"}:
            yield self._finding(None, "a shell is given to a remote host")
        shells = any(re.search(r"/bin/(?:ba|z)?sh|cmd\.exe", text) for text in texts)
        if "socket" in self._imports and (shells or "pty" in self._imports):
            yield self._finding(None, "a socket and a shell in one file")
        if "ctypes" in self._imports and called & _MACHINE_CODE_CALLS:
            yield self._finding(None, "machine code is put into memory and run")
        if self._network and called & {"chmod", "execv", "execve", "execl", "startfile"}:
            yield self._finding(None, "fetched data is made executable")
        if not self._network and not any(re.search(r"\b(?:curl|wget|nc)\b\s", t) for t in texts):
            return
        for string in self._module.strings:
            text = string.value
            far = load_pattern("python", "far").search(text)
            if far and not re.search(r"\d\.\d+ ?\.?[a-z]", text):
                yield self._finding(string, f"a bare address of a remote machine: {text[:60]!r}")
                return

    def _finding(self, where: ast.AST | None, cause: str, *, blocks: bool = True) -> ScanFinding:
        return ScanFinding("python", self._file, getattr(where, "lineno", 1), cause, blocks)


def is_string_trick(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return node.slice.step is not None and isinstance(node.value, ast.Constant | ast.Name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_plain_text(node) and len(ast.unparse(node)) < 60
    if not isinstance(node, ast.Call):
        return False
    last = last_name(node.func)
    if last == "join" and node.args:
        return _is_spelled_out(node.args[0])
    if last in _DECODING_CALLS:
        inner = (each for each in ast.walk(node) if each is not node.func)
        return any(isinstance(each, ast.Constant | ast.List) for each in inner)
    if last in ("chr", "bytes", "bytearray", "reversed"):
        return bool(node.args) and isinstance(node.args[0], ast.List | ast.Tuple | ast.Constant)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return last == "replace" and isinstance(owner, ast.Constant)


def _is_plain_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_plain_text(node.left) and _is_plain_text(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value


def _is_spelled_out(node: ast.AST) -> bool:
    """`["so", "cket"]`, `map(chr, …)`, `chr(c) for c in …`, `reversed("…")`."""
    if isinstance(node, ast.List | ast.Tuple):
        texts = [each.value for each in node.elts if isinstance(each, ast.Constant)]
        return bool(texts) and all(
            isinstance(each, str) and len(each) <= 6 and each.strip() for each in texts
        )
    if isinstance(node, ast.Call):
        return ast.unparse(node).startswith(("map(chr", "reversed("))
    return isinstance(node, ast.GeneratorExp | ast.ListComp) and "chr(" in ast.unparse(node.elt)


def _spelled_in_numbers(node: ast.AST) -> bool:
    """A word written as character codes, which harmless code does not need."""
    source = ast.unparse(node) if isinstance(node, ast.Call) else ""
    return bool(re.match(r"(?:''|\"\")\.join\(map\(chr, [\[(]\d+(?:, \d+){2,}", source))


def _decodes_or_fetches(node: ast.AST) -> bool:
    return bool(_DECODED_OR_FETCHED.search(ast.unparse(node)))
