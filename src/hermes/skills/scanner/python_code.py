"""Python in a foreign skill: what it hides, what it reaches for, and what the two add up to."""

import ast
import re
from collections.abc import Callable, Iterator

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.python_folding import Folder, names_in
from hermes.skills.scanner.python_tricks import (
    dates_in,
    dotted,
    everything,
    fixed_machine,
    fixed_moment,
    is_trick,
    spelled_in_numbers,
    unpacks,
)
from hermes.skills.scanner.signs import signs

LARGEST = 512 << 10
_NETWORK = {
    "socket", "urllib", "http", "requests", "httpx", "aiohttp", "urllib3", "ftplib", "smtplib",
    "telnetlib", "websocket", "websockets", "pycurl", "asyncio.streams", "xmlrpc", "imaplib",
    "poplib", "nntplib", "boto3", "dns", "scapy",
}  # fmt: skip
_HIDES = _NETWORK | {
    "os",
    "subprocess",
    "base64",
    "builtins",
    "zlib",
    "codecs",
    "marshal",
    "ctypes",
}
_LOADERS = {"pickle", "cPickle", "dill", "marshal", "cloudpickle", "shelve", "jsonpickle"}
_RUNS = {"exec", "eval", "compile", "__import__", "execfile"}
_DEEP = {"__subclasses__", "__globals__", "__builtins__", "__mro__", "__bases__", "__code__",
         "f_globals", "f_builtins", "gi_frame", "__getattribute__", "__loader__"}  # fmt: skip
_HARM = {
    "rmtree", "system", "popen", "Popen", "exec", "eval", "call", "run", "remove", "unlink",
    "check_call", "check_output", "urlopen", "connect", "execv", "execve", "spawn",
}  # fmt: skip
_COMMANDS = {
    "system", "popen", "run", "call", "Popen", "check_output", "check_call", "spawn", "getoutput",
    "getstatusoutput", "create_subprocess_shell", "create_subprocess_exec",
}  # fmt: skip
_WRITES = {
    "write_text", "write_bytes", "write", "open", "copy", "copyfile", "symlink", "system", "run",
    "writelines", "call", "Popen",
}  # fmt: skip
_MACHINE = {"mmap", "CFUNCTYPE", "memmove", "VirtualAlloc", "mprotect", "WINFUNCTYPE"}
Shell = Callable[[str, int], Iterator[Finding]]
"""Looks at a command that Python would hand to a shell."""


def look_at_python(file: str, text: str, shell: Shell) -> Iterator[Finding]:
    if len(text) > LARGEST:
        yield _found(file, 1, f"{len(text):,} characters of code are too many to be read")
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield _found(file, 1, f"Python that cannot be read: {error}", blocks=False)
        return
    try:
        yield from _Look(file, tree, shell).findings()
    except RecursionError:
        yield _found(file, 1, "code nested too deeply to be read")


class _Look:
    """One file: what it imports, names, calls and writes, gathered once and then weighed."""

    def __init__(self, file: str, tree: ast.Module, shell: Shell) -> None:
        self._file, self._tree, self._shell = file, tree, shell
        self._names = names_in(tree)
        self._dates = dates_in(tree)
        self._calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._called = {dotted(call.func) for call in self._calls}
        self._last = {name.rpartition(".")[2] for name in self._called}
        self._imports = {name for node in ast.walk(tree) for name in _imported(node)}
        self._strings = list(_strings(tree))
        self._network = bool({name.split(".")[0] for name in self._imports} & _NETWORK)

    def findings(self) -> Iterator[Finding]:
        for call in self._calls:
            yield from self._call(call)
        for node in ast.walk(self._tree):
            yield from self._deep(node)
        yield from self._folded()
        yield from self._secrets()
        yield from self._stays()
        yield from self._moments()
        yield from self._whole()

    def _call(self, call: ast.Call) -> Iterator[Finding]:
        name = dotted(call.func)
        last = name.rpartition(".")[2]
        first = call.args[0] if call.args else None
        if last in ("exec", "eval") and first is not None and unpacks(first):
            yield self._at(call, f"{last} of what was packed away or fetched")
        elif name in _RUNS or name.startswith("builtins."):
            yield from self._run(call, name, first)
        elif last in ("import_module", "getattr", "setattr"):
            wanted = first if last == "import_module" else next(iter(call.args[1:]), None)
            owner = dotted(first) if first is not None else ""
            if last == "getattr" and owner in ("builtins", "__builtins__"):
                yield self._at(call, "builtins reached by name")
            elif wanted is not None and self._tricky(wanted):
                yield self._at(call, f"{last} with a name that is made up on the way")
        elif last in ("loads", "load") and name.split(".")[0] in _LOADERS:
            packed = first is not None and (self._fold(first) is not None or unpacks(first))
            yield self._at(call, f"{name} runs what is in its data", blocks=packed or self._network)
        elif last == "rmtree" and first is not None and everything(first, self._fold(first)):
            yield self._at(call, "everything of a person, or of the machine, would be removed")
        yield from self._command(call, name, last, first)

    def _run(self, call: ast.Call, name: str, first: ast.expr | None) -> Iterator[Finding]:
        if first is None or name == "compile":
            return
        if isinstance(first, ast.Constant):
            if name == "__import__" and str(first.value).split(".")[0] in _NETWORK | {
                "os",
                "subprocess",
            }:
                yield self._at(call, f"__import__({first.value!r}): an import that hides")
            return
        listed = name == "__import__" and isinstance(first, ast.Name) and self._is_listed(first)
        hidden = self._tricky(first) or unpacks(first) or name in ("exec", "__import__")
        hidden = hidden and not listed
        yield self._at(call, f"{name} of text that nobody has seen", blocks=hidden or self._network)

    def _is_listed(self, wanted: ast.Name) -> bool:
        """Only names that stand in a list of the file's own get that far."""
        return any(
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Compare)
            and isinstance(node.test.ops[0], ast.In)
            and isinstance(node.test.comparators[0], ast.Name | ast.Set | ast.Tuple | ast.List)
            and any(isinstance(e, ast.Name) and e.id == wanted.id for e in ast.walk(node.test.left))
            for node in ast.walk(self._tree)
        )

    def _command(
        self, call: ast.Call, name: str, last: str, first: ast.expr | None
    ) -> Iterator[Finding]:
        if first is None or not re.match(
            r"(?:os|subprocess|commands|pty|asyncio)\.|popen|Popen|system", name
        ):
            return
        if last in _COMMANDS:
            words = self._fold(first)
            text = " ".join(map(str, words)) if isinstance(words, list) else str(words or "")
            if self._tricky(first):
                yield self._at(call, "a command that is put together so that it cannot be read")
            yield from self._shell(text, call.lineno)

    def _deep(self, node: ast.AST) -> Iterator[Finding]:
        if isinstance(node, ast.Attribute) and node.attr in _DEEP:
            yield self._at(node, f"{node.attr} reaches behind the language")
        elif isinstance(node, ast.Subscript):
            value = node.value
            called = dotted(value.func) if isinstance(value, ast.Call) else dotted(value)
            behind = called in ("vars", "globals", "locals", "__builtins__", "sys.modules")
            if behind and (self._tricky(node.slice) or called == "__builtins__"):
                yield self._at(node, f"{called}[…] with a name that is made up on the way")
            elif called == "vars" and "builtins" in ast.dump(value):
                yield self._at(node, "builtins reached by name")

    def _folded(self) -> Iterator[Finding]:
        """Strings that say something else once their tricks are undone."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call | ast.Subscript | ast.BinOp) and self._tricky(node):
                value = self._fold(node)
                text = value.decode(errors="replace") if isinstance(value, bytes) else value
                numbered = isinstance(text, str) and spelled_in_numbers(node) and text.isalpha()
                if isinstance(text, str) and (numbered or _pattern("sensitive").search(text)):
                    yield self._at(node, f"a string hides {text[:60]!r}")
                    return

    def _secrets(self) -> Iterator[Finding]:
        found = [(line, text) for line, text in self._strings if _pattern("secret").search(text)]
        for line, text in found:
            if _pattern("always").search(text):
                yield self._at(line, f"it reaches for {text[:60]!r}")
        only_ssh = self._imports & {"paramiko", "fabric", "asyncssh"} and not self._network
        if found and self._sends() and not only_ssh:
            yield self._at(found[0][0], f"it reads {found[0][1][:60]!r} and talks to the network")
        if self._sends() and self._whole_environment():
            yield self._at(1, "it takes all environment variables and talks to the network")

    def _sends(self) -> bool:
        commands = any(re.search(r"\b(?:curl|wget|nc)\b\s", text) for _, text in self._strings)
        return self._network or commands

    def _whole_environment(self) -> bool:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                inside = [dotted(each) for each in node.args]
                inside += [
                    dotted(each.value) for each in node.keywords if each.arg not in ("env", None)
                ]
                if "os.environ" in inside and dotted(node.func) not in ("len", "isinstance"):
                    return True
                if dotted(node.func) in (
                    "os.environ.items",
                    "os.environ.copy",
                    "os.environ.values",
                ):
                    return True
            elif isinstance(node, ast.Dict):
                alone = [v for k, v in zip(node.keys, node.values, strict=True) if k is None]
                if len(node.keys) == 1 and any(dotted(each) == "os.environ" for each in alone):
                    return True
        return False

    def _stays(self) -> Iterator[Finding]:
        writes = self._last & _WRITES
        for line, text in self._strings:
            if writes and _pattern("stays").search(text):
                yield self._at(
                    line, f"it would stay behind, by way of {_pattern('stays').findall(text)[0]!r}"
                )
                return

    def _moments(self) -> Iterator[Finding]:
        """A comparison with a fixed date, a host or a user decides over something harmful."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.If | ast.IfExp | ast.While):
                if not (fixed_moment(node.test, self._dates) or fixed_machine(node.test)):
                    continue
                inside = {
                    dotted(c.func).rpartition(".")[2]
                    for c in ast.walk(node)
                    if isinstance(c, ast.Call)
                }
                if inside & _HARM or (
                    fixed_moment(node.test, self._dates)
                    and self._last & (_HARM - {"run", "call", "connect"})
                ):
                    yield self._at(node, "it waits for a date, a machine or a user, and then acts")

    def _whole(self) -> Iterator[Finding]:
        if "dup2" in self._last and self._last & {"socket", "connect", "create_connection"}:
            yield self._at(1, "a shell handed to somebody far away")
        shells = any(re.search(r"/bin/(?:ba|z)?sh|cmd\.exe", text) for _, text in self._strings)
        if "socket" in self._imports and (shells or "pty" in self._imports):
            yield self._at(1, "a socket beside a shell")
        if "ctypes" in self._imports and self._last & _MACHINE:
            yield self._at(1, "machine code is put into memory and run")
        if self._network and self._last & {"chmod", "execv", "execve", "execl", "startfile"}:
            yield self._at(1, "what was fetched is made into a program")
        for line, text in self._strings:
            if (
                self._sends()
                and _pattern("far").search(text)
                and not re.search(r"\d\.\d+ ?\.?[a-z]", text)
            ):
                yield self._at(line, f"a bare address of a far machine: {text[:60]!r}")
                return

    def _fold(self, node: ast.AST) -> object:
        return Folder(self._names).fold(node)

    def _tricky(self, node: ast.AST) -> bool:
        """A name or a text that somebody took pains to hide."""
        return is_trick(node) or (isinstance(node, ast.Name) and self._was_tricky(node.id))

    def _was_tricky(self, name: str) -> bool:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and any(
                getattr(t, "id", "") == name for t in node.targets
            ):
                return is_trick(node.value)
        return False

    def _at(self, where: ast.AST | int, cause: str, *, blocks: bool = True) -> Finding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return _found(self._file, line, cause, blocks=blocks)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Text that is used; what only stands there is a comment."""
    idle = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in idle:
            yield node.lineno, node.value


def _pattern(table: str) -> re.Pattern[str]:
    return signs("python", table)[0].pattern


def _found(file: str, line: int, cause: str, *, blocks: bool = True) -> Finding:
    return Finding(kind="python", file=file, line=line, cause=cause, blocks=blocks)
