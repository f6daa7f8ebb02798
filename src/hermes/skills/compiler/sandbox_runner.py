"""Runs the tests of a skill, or one call of it, inside the sandbox, within `skills/` and `data/`.

This file is copied into the sandbox: standard library only, any Python 3. The isolation does not
depend on the audit hook here; the hook adds an error message that names the forbidden action.
"""

import doctest
import importlib.util
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

REFUSED_EVENTS = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
    "os.kill", "ctypes.", "urllib.", "http.client.", "ftplib.", "smtplib.", "pty.", "webbrowser.",
    "os.startfile", "code.__new__", "os.chmod", "os.chown",
    "os.link", "os.symlink", "os.putenv", "sqlite3.enable_load_extension", "sqlite3.load_extension",
)  # fmt: skip
WRITE_EVENTS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.utime")
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class FileAccessLimits:
    """What may be read and written. An audit hook cannot be removed, only switched off."""

    def __init__(self, readable: list[Path]) -> None:
        self.readable = readable
        self.data = Path("data").resolve()
        self.on = False

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event.startswith(REFUSED_EVENTS):
            raise PermissionError(f"a skill may not do this: {event}")
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, str | bytes):
                self._check(
                    path, writes=bool(flags & WRITE_FLAGS) or bool({*(mode or "")} & {*"wax+"})
                )
        elif event.startswith(WRITE_EVENTS):
            for path in arguments[:2]:
                if isinstance(path, str | bytes):
                    self._check(path, writes=True)

    def _check(self, path: str | bytes, *, writes: bool) -> None:
        self.on = False
        try:
            real = Path(os.fsdecode(path)).resolve()
        finally:
            self.on = True
        if real.is_relative_to(self.data):
            return
        if not writes and any(real.is_relative_to(each) for each in self.readable):
            return
        verb = "write" if writes else "read"
        raise PermissionError(f"a skill may only {verb} below data/, not {os.fsdecode(path)!r}")


def write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def load_module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def format_traceback(error: BaseException) -> str:
    """The traceback, reduced to the lines of the skill."""
    report = traceback.TracebackException.from_exception(error)
    own = [
        each
        for each in report.stack
        if each.filename != __file__ and not each.filename.startswith("<frozen")
    ]
    report.stack = traceback.StackSummary.from_list(own[-8:])
    return "".join(report.format())[-6000:].rstrip()


def run_limited(limits: FileAccessLimits, body: Callable[[], Any]) -> tuple[Any, str]:
    """The return value, or the traceback."""
    limits.on = True
    try:
        return body(), ""
    except BaseException as error:  # noqa: BLE001 - whatever a test raises is its result
        limits.on = False
        return None, format_traceback(error) or repr(error)
    finally:
        limits.on = False


def run_isolated(limits: FileAccessLimits, body: Callable[[], Any]) -> str:
    """Runs a test in a separate folder with an empty `data/`; returns the traceback on failure."""
    limits.on, before = False, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve()
        (here / "data").mkdir()
        (here / "skills").symlink_to(before / "skills")
        os.chdir(here)
        limits.data = here / "data"
        try:
            return run_limited(limits, body)[1]
        finally:
            os.chdir(before)


def find_docstring_tests(module: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The docstrings of the module as tests."""
    for case in doctest.DocTestFinder().find(module, module.__name__):
        if case.examples:
            yield f"docstring of {case.name}", partial(run_docstring_test, case)


def run_docstring_test(case: doctest.DocTest) -> None:
    runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    try:
        runner.run(case, clear_globs=False)
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1] from None
    except doctest.DocTestFailure as failure:
        example = failure.example
        raise AssertionError(
            f"{example.source.strip()}\nexpected: {example.want.strip()}\n"
            f"got: {failure.got.strip()}"
        ) from None


def run_suite(folder: Path, function: str, limits: FileAccessLimits, *, hollow: bool) -> int:
    """With `hollow`, the function is replaced by one that does nothing, and tests should fail."""
    module = load_module(folder / "scripts" / f"{function}.py", function)
    if hollow:
        setattr(module, function, lambda *arguments, **named: None)
    tests = load_module(folder / "tests" / f"test_{function}.py", f"test_{function}")
    found = [(n, b) for n, b in vars(tests).items() if n.startswith("test_") and callable(b)]
    if not hollow:
        found += find_docstring_tests(module)
    failed = 0
    for name, body in found:
        failure = run_isolated(limits, body)
        failed += bool(failure)
        write_line(f"FAIL {name}\n{failure}" if failure else f"ok   {name}")
    write_line(f"{len(found) - failed} of {len(found)} passed")
    return 1 if failed or not found else 0


def call_function(folder: Path, function: str, limits: FileAccessLimits, token: str) -> int:
    arguments = json.loads(sys.stdin.read() or "{}")
    module = load_module(folder / "scripts" / f"{function}.py", function)
    value, failure = run_limited(limits, lambda: getattr(module, function)(**arguments))
    if failure:
        write_line(failure)
        return 1
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    write_line(f"\n{token}{json.dumps(text)}")
    return 0


def main() -> int:
    mode, path, function, token, *more = sys.argv[1:]
    folder, modules = Path(path).resolve(), [Path(each).resolve() for each in more]
    sys.dont_write_bytecode = True
    sys.path[:0] = map(str, modules)
    library = [Path(each).resolve() for each in (sys.prefix, sys.base_prefix, "/dev/null")]
    limits = FileAccessLimits([*library, folder, Path("skills").resolve(), *modules])
    sys.addaudithook(limits.hook)
    exit_codes: list[int] = []

    def start() -> None:
        if mode == "call":
            exit_codes.append(call_function(folder, function, limits, token))
        else:
            exit_codes.append(run_suite(folder, function, limits, hollow=mode == "hollow"))

    failure = run_limited(limits, start)[1]
    if failure:
        write_line(failure)
    return exit_codes[0] if exit_codes else 1


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    os._exit(exit_code)  # without waiting for threads or exit handlers of the skill
