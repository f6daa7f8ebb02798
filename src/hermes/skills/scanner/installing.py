"""What runs merely because something is installed: build steps that are usual, and others."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Finding
from hermes.skills.scanner.python_tricks import dotted

_HOOKS = ("preinstall", "install", "postinstall", "prepare", "prepack", "preprepare", "postprepare",
          "prepublish", "prepublishOnly", "dependencies")  # fmt: skip
_RUNS_CODE = {"node", "nodejs", "deno", "bun", "tsx", "ts-node", "python", "python2", "python3",
              "ruby", "perl", "php", "sh", "bash", "zsh", "dash", "pwsh", "powershell"}  # fmt: skip
_FETCHES = {"curl", "wget", "nc", "ncat", "ssh", "scp", "eval", "exec", "sudo", "crontab", "source",
            "dig", "openssl", "base64", "xxd", "chmod", "rm", "dlx"}  # fmt: skip
_BUILDS = {"git", "make", "cmake", "ninja", "meson", "cargo", "rustc", "go", "gcc", "cc", "g++",
           "clang", "pkg-config", "npm", "yarn", "pnpm", "protoc", "swig", "cython", "msgfmt",
           "nvcc", "llvm-config", "uname", "xcrun", "brew", "autoreconf", "sphinx-build",
           "pybabel"}  # fmt: skip
_COMMANDS = re.compile(
    r"(?:os\.(?:system|popen|exec\w*|spawn\w*)|subprocess\.\w+|(?:Popen|check_call|check_output))$"
)
_REACHES = re.compile(r"(?:urllib|requests|httpx|socket|http\.client|ftplib)\b|urlopen$")
_OWN_FILE = re.compile(r"open\(|read_text\(|\.read\(\)|compile\(")


class _Manifest(Value, frozen=True):
    scripts: dict[str, str] = {}


def look_at_installing(path: str, text: str, present: frozenset[str]) -> Iterator[Finding]:
    """`present`: the files of the skill; a step that runs one of them is judged by that file."""
    name = PurePosixPath(path).name.casefold()
    steps = _npm(path, text, present) if name == "package.json" else ()
    if name == "setup.py":
        steps = _setup(text)
    for line, shown, usual in steps:
        cause = f"installing it runs {shown[:80]!r}"
        yield Finding(kind="dependency", file=path, line=line, cause=cause, blocks=not usual)


def _npm(path: str, text: str, present: frozenset[str]) -> list[tuple[int, str, bool]]:
    try:
        scripts = msgspec.json.decode(text, type=_Manifest).scripts
    except msgspec.DecodeError:
        return []
    folder = PurePosixPath(path).parent
    found = []
    for hook in _HOOKS:
        if said := scripts.get(hook, ""):
            line = text[: max(0, text.find(f'"{hook}"'))].count("\n") + 1
            found.append((line, said, _usual(said, folder, present)))
    return found


def _usual(said: str, folder: PurePosixPath, present: frozenset[str]) -> bool:
    """A tool of the trade, or a file of the skill that is read and tried like any other."""
    if re.search(r"https?://|[`$]|\s-e\s|\s-c\s|\|(?!\|)|>", said):
        return False
    try:
        steps = [shlex.split(step) for step in re.split(r"&&|\|\||;", said)]
    except ValueError:
        return False
    for words in steps:
        program = words[0].rpartition("/")[2] if words else ""
        if program in _FETCHES or set(words) & _FETCHES:
            return False
        local = words[0] if words and words[0].startswith(".") else ""
        if program in _RUNS_CODE or local:
            script = local or next((word for word in words[1:] if not word.startswith("-")), "")
            if str(folder / script.removeprefix("./")) not in present:
                return False
    return True


def _setup(text: str) -> list[tuple[int, str, bool]]:
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [(1, "a setup.py that cannot be read", False)]
    found = []
    for call in calls:
        name, shown = dotted(call.func), ast.unparse(call)
        if _REACHES.match(name) or name in ("eval", "__import__"):
            found.append((call.lineno, shown, False))
        elif name == "exec":
            found.append((call.lineno, shown, bool(_OWN_FILE.search(shown))))
        elif _COMMANDS.match(name) and name not in ("subprocess.PIPE", "subprocess.DEVNULL"):
            found.append((call.lineno, shown, _first_word(call) in _BUILDS))
    return found


def _first_word(call: ast.Call) -> str:
    """The program that is started; empty when it is only known later."""
    given = call.args[0] if call.args else None
    if isinstance(given, ast.List | ast.Tuple) and given.elts:
        given = given.elts[0]
    if isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value.strip():
        if re.search(r"[;|&`$]", given.value):
            return ""
        return given.value.split()[0].rpartition("/")[2]
    return ""
