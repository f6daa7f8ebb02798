"""Asks a model for a skill's code and tests, and for a better draft when the first one failed."""

import re

from hermes.core.errors import ToolError
from hermes.core.messages import Completion, Message
from hermes.core.protocols import Model
from hermes.skills.compiler.draft import Draft

RULES = """\
You write one Python function that becomes a tool, and its tests.

Answer with two fenced blocks and nothing else:
1. ```python with the module: a docstring, imports, and one public function named {function} with a
   type on every parameter (str, int, float, bool, list[...], dict[str, ...]) and a docstring that
   says what it does, what it returns, and shows a >>> example where that is easy.
2. ```python with plain functions test_...() that take no arguments, import it with
   `from {function} import {function}`, and assert on what it returns and writes.

It runs in a sandbox: Python's standard library for computing only{modules}; no network, no other
programs, no exec, eval or dunder tricks. Files are read and written below data/ (a relative path:
whoever speaks of /app/data or an absolute folder means it), never elsewhere. A name of a file that
comes as an argument must not lead out of data/: check it. Return a short text or JSON value that
says what was done. Raise ValueError with a clear text for arguments that make no sense.
"""
_BLOCK = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_APP = re.compile(r"(?<![\w/])/app/(data|skills)(?=[/\"'])")
LONGEST_TRACE = 6_000


class Drafter:
    """One conversation with a model about one skill."""

    def __init__(self, model: Model, function: str, task: str, modules: tuple[str, ...]) -> None:
        self._model = model
        self._function = function
        self._task = task
        extra = f", and {', '.join(modules)}" if modules else ""
        self._messages = [
            Message(role="system", text=RULES.format(function=function, modules=extra)),
            Message(role="user", text=f"Write the function {function}. The task:\n\n{task}"),
        ]
        self.completions: list[Completion] = []

    async def draft(self) -> Draft:
        return await self._ask()

    async def repair(self, failure: str) -> Draft:
        """The real traceback goes back as it is; its end says most."""
        self._messages.append(
            Message(
                role="user",
                text="That failed. Mend it and answer with both blocks again, whole.\n\n"
                f"```\n{failure[-LONGEST_TRACE:]}\n```",
            )
        )
        return await self._ask()

    async def _ask(self) -> Draft:
        """Raises `ModelError`; an answer without code is a draft that the checks refuse."""
        completion = await self._model.complete(self._messages)
        self.completions.append(completion)
        self._messages.append(completion.message)
        code, tests = split(completion.message.text)
        return Draft(function=self._function, code=code, tests=tests, task=self._task)


def split(text: str) -> tuple[str, str]:
    """Code and tests of an answer; what is missing is empty."""
    blocks = [here(block) for block in _BLOCK.findall(text)]
    tests = [block for block in blocks if re.search(r"^def test_", block, re.MULTILINE)]
    code = [block for block in blocks if block not in tests]
    return (code[0] if code else ""), (tests[0] if tests else "")


def here(code: str) -> str:
    """`/app/data/x` is what people call it; here it is `data/x`."""
    return _APP.sub(r"\1", code)


def asked_name(task: str) -> str:
    """The name in "create a skill called 'x'". Raises `ToolError` when none is given."""
    found = re.search(r"(?:called|named)\s+[`'\"“‘]?([A-Za-z][\w-]*)", task)
    if found is None:
        raise ToolError("the task does not say what the skill is to be called: give it a name")
    return found[1]
