"""What the parts of one Python file add up to: a secret and a way out, a date and harm."""

import ast
import re
from collections.abc import Iterator

from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.python_tricks import dates_in, dotted, fixed_machine, fixed_moment
from hermes.skills.scanner.signs import signs

NETWORK = {
    "socket", "urllib", "http", "requests", "httpx", "aiohttp", "urllib3", "ftplib", "smtplib",
    "telnetlib", "websocket", "websockets", "pycurl", "asyncio.streams", "xmlrpc", "imaplib",
    "poplib", "nntplib", "boto3", "dns", "scapy",
}  # fmt: skip
_HARM = {
    "rmtree", "system", "popen", "Popen", "exec", "eval", "call", "run", "remove", "unlink",
    "check_call", "check_output", "urlopen", "connect", "execv", "execve", "spawn",
}  # fmt: skip
_WRITES = {
    "write_text", "write_bytes", "write", "open", "copy", "copyfile", "symlink", "system", "run",
    "writelines", "call", "Popen",
}  # fmt: skip
_MACHINE = {"mmap", "CFUNCTYPE", "memmove", "VirtualAlloc", "mprotect", "WINFUNCTYPE"}


class Sums:
    """What a file imports, calls and says, gathered once and then weighed."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file, self._tree = file, tree
        self._dates = dates_in(tree)
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._last = {dotted(call.func).rpartition(".")[2] for call in self.calls}
        self._imports = {name for node in ast.walk(tree) for name in _imported(node)}
        self._strings = list(_strings(tree))
        self.network = bool({name.split(".")[0] for name in self._imports} & NETWORK)

    def findings(self) -> Iterator[Finding]:
        yield from self._secrets()
        yield from self._stays()
        yield from self._moments()
        yield from self._whole()

    def _secrets(self) -> Iterator[Finding]:
        found = [(line, text) for line, text in self._strings if _pattern("secret").search(text)]
        for line, text in found:
            if _pattern("always").search(text):
                yield self._at(line, f"it reaches for {text[:60]!r}")
        only_ssh = self._imports & {"paramiko", "fabric", "asyncssh"} and not self.network
        if found and self._sends() and not only_ssh:
            yield self._at(found[0][0], f"it reads {found[0][1][:60]!r} and talks to the network")
        if self._sends() and self._whole_environment():
            yield self._at(1, "it takes all environment variables and talks to the network")

    def _sends(self) -> bool:
        commands = any(re.search(r"\b(?:curl|wget|nc)\b\s", text) for _, text in self._strings)
        return self.network or commands

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
        if self.network and self._last & {"chmod", "execv", "execve", "execl", "startfile"}:
            yield self._at(1, "what was fetched is made into a program")
        for line, text in self._strings:
            if (
                self._sends()
                and _pattern("far").search(text)
                and not re.search(r"\d\.\d+ ?\.?[a-z]", text)
            ):
                yield self._at(line, f"a bare address of a far machine: {text[:60]!r}")
                return

    def _at(self, where: ast.AST | int, cause: str) -> Finding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return Finding(kind="python", file=self._file, line=line, cause=cause)


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
