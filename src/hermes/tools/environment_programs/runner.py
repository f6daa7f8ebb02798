"""Runs the model's Python inside an environment; tool calls are answered over a line-based link.

Started as `python3 -c <this text> TOKEN [FOLDER]`. The link is our own standard input and output
or, in an environment that cannot keep a process open, files in FOLDER. Each line we send is one
JSON object after TOKEN, so that other output can be distinguished.
"""

from __future__ import annotations

import ast
import codecs
import itertools
import json
import linecache
import os
import queue
import select
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CODE_FILE_NAME = "<code>"


class ToolFailed(Exception):
    """A tool refused or failed; the text says why."""


class ToolLink:
    def __init__(self, token: str, folder: str) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        if folder:
            self._out = (Path(folder) / "out").open("ab", 0)
            self._lines = polled_lines(Path(folder))
        else:
            self._out = os.fdopen(os.dup(1), "wb", 0)
            self._lines = iter(os.fdopen(os.dup(0), "rb").readline, b"")

    def first(self) -> dict[str, Any]:
        task: dict[str, Any] = json.loads(next(self._lines))
        threading.Thread(target=self._listen, daemon=True).start()
        return task

    def send(self, message: dict[str, Any]) -> None:
        line = self._token + " " + json.dumps(message, default=str) + "\n"
        with self._lock:
            data = memoryview(line.encode("utf-8", "replace"))
            while data:  # an unbuffered write may take only a part
                data = data[self._out.write(data) or 0 :]

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        number = next(self._numbers)
        answers = self._waiting[number] = queue.Queue()
        self.send({"call": number, "name": name, "arguments": arguments})
        answer = answers.get()
        del self._waiting[number]
        if not answer["ok"]:
            raise ToolFailed(answer["text"])
        return str(answer["text"])

    def _listen(self) -> None:
        for line in self._lines:
            answer = json.loads(line)
            self._waiting[answer["answer"]].put(answer)
        os._exit(1)  # the process that started us is gone: stop


def polled_lines(folder: Path) -> Iterator[bytes]:
    """Return what the other side writes as files in-1, in-2, ... until it removes the folder."""
    for number in itertools.count(1):
        path, pause = folder / f"in-{number}", 0.005
        while not path.exists():
            if not folder.exists():
                return
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
        yield path.read_bytes()
        path.unlink()


class OutputCapture:
    """Captures standard output and error, also of programs the code starts, and sends them on."""

    def __init__(self, link: ToolLink, limit: int) -> None:
        self._link, self._head_left = link, limit - limit // 2
        self._tail, self._tail_size, self._dropped = "", limit // 2, 0
        self._from, into = os.pipe()
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # New objects: the old ones remember whether the previous files could seek.
        sys.stdout = os.fdopen(1, "w", 1, "utf-8", "replace", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, "utf-8", "replace", closefd=False)
        self._wake, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.close(self._waker)
        self._thread.join(5)
        if self._dropped:
            self._link.send({"out": f"\n[… {self._dropped} characters left out …]\n"})
        self._link.send({"out": self._tail})

    def _pump(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            ready = select.select([self._from, self._wake], [], [])[0]
            if self._from not in ready:
                return  # woken to end, and nothing is left to read
            self._keep(decoder.decode(os.read(self._from, 65536)))

    def _keep(self, text: str) -> None:
        if self._head_left:
            now, text = text[: self._head_left], text[self._head_left :]
            self._head_left -= len(now)
            self._link.send({"out": now})
        self._tail += text
        extra = len(self._tail) - self._tail_size
        if extra > 0:
            self._dropped += extra
            self._tail = self._tail[extra:]


def tool_function(link: ToolLink, name: str, parameters: list[str], doc: str) -> Callable[..., str]:
    def call(*args: Any, **kwargs: Any) -> str:
        if len(args) > len(parameters):
            raise TypeError(f"{name} takes {', '.join(parameters) or 'nothing'}")
        positional = dict(zip(parameters, args))  # noqa: B905 - older Pythons know no `strict`
        twice = positional.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"{name} got {', '.join(twice)} twice")
        return link.call(name, {**positional, **kwargs})

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def run_code(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run it; the value of a last line that is an expression is printed, as in a notebook."""
    linecache.cache[CODE_FILE_NAME] = (len(code), None, code.splitlines(True), CODE_FILE_NAME)
    try:
        tree = ast.parse(code, CODE_FILE_NAME)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, CODE_FILE_NAME, "exec"), names)
            return {}
        tree.body.pop()
        exec(compile(tree, CODE_FILE_NAME, "exec"), names)
        value = eval(compile(ast.Expression(last.value), CODE_FILE_NAME, "eval"), names)
        return {} if value is None else {"value": repr(value)[:5000]}
    except SystemExit as error:
        return {} if error.code in (None, 0) else {"error": f"exited with {error.code!r}"}
    except BaseException as error:  # noqa: BLE001 - whatever the code raised is its result
        return {"error": format_error(error)}


def format_error(error: BaseException) -> str:
    """The traceback with the lines of the code, and without ours."""
    report = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = report
    while part is not None:
        mine = [frame for frame in part.stack if frame.filename != "<string>"]
        part.stack = traceback.StackSummary.from_list(mine)
        part = part.__cause__ or part.__context__
    return "".join(report.format()).rstrip()


def prepare_names(link: ToolLink, task: dict[str, Any]) -> dict[str, Any]:
    """The names available to the code: every tool, also as the module `hermes_tools`."""
    tools = types.ModuleType("hermes_tools")
    for name, parameters, doc in task["tools"]:
        setattr(tools, name, tool_function(link, name, parameters, doc))
    vars(tools)["ToolFailed"] = ToolFailed
    module = types.ModuleType("__main__")
    vars(module).update((k, v) for k, v in vars(tools).items() if not k.startswith("__"))
    sys.modules.update(hermes_tools=tools, __main__=module)
    sys.argv = [CODE_FILE_NAME]
    return vars(module)


def main() -> None:
    link = ToolLink(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    link.send({"hello": sys.version.split()[0]})
    task = link.first()
    # If the process that started us is gone by then, we must not run forever.
    alarm = threading.Timer(task["seconds"] + 10, os._exit, (1,))
    alarm.daemon = True
    alarm.start()
    try:
        printed = OutputCapture(link, task["output"])
        done = run_code(task["code"], prepare_names(link, task))
        printed.finish()
    except Exception as error:  # noqa: BLE001 - an error of the runner itself must be reported
        done = {"error": f"the runner failed: {error!r}"}
    link.send({"done": done})
    os._exit(0)  # without waiting for threads the code left behind


if __name__ == "__main__":
    main()
