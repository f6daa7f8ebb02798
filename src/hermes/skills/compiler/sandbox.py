"""Runs a Python skill in a sandbox: its tests first, later its function as a tool."""

import json
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from pathlib import Path
from typing import Any

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec, Value
from hermes.core.protocols import Environment, ToolContext
from hermes.skills.compiler.draft import PythonSkillDraft, read_draft_folder
from hermes.skills.compiler.function_signature import (
    build_arguments_struct,
    convert_arguments,
    parse_function,
)
from hermes.skills.compiler.registry import RegisteredSkill
from hermes.skills.format import compute_skill_digest

RUNNER_FILE = "sandbox_runner.py"
OpenSandbox = Callable[[Sequence[Path]], AbstractAsyncContextManager[Environment]]
"""Opens a sandbox with an empty working folder; the paths are folders it may read."""
HOLLOW_TESTS_MESSAGE = (
    "the tests pass although {function} was replaced by a function that does nothing: "
    "assert on what it returns or writes"
)


class DraftValidation(Value, kw_only=True, frozen=True):
    exit_code: int
    output: str = ""
    """What the tests printed; it ends with the traceback that a repair needs."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


async def validate_draft(
    draft: PythonSkillDraft,
    environment: Environment,
    *,
    timeout: float,
    modules: Sequence[str],
) -> DraftValidation:
    """Raises `EnvironmentFailed`; a failure of the code is a result."""
    await write_draft_files(draft, environment)
    command = build_runner_command("suite", draft, modules=modules)
    ran = await environment.run(command, timeout=timeout)
    output = ran.output.strip()
    if ran.timed_out:
        late = f"{output}\nTimeoutError: the tests took longer than {timeout:g} s"
        return DraftValidation(exit_code=124, output=late)
    if ran.exit_code == 0:
        command = build_runner_command("hollow", draft, modules=modules)
        if (await environment.run(command, timeout=timeout)).exit_code == 0:
            message = HOLLOW_TESTS_MESSAGE.format(function=draft.function)
            return DraftValidation(exit_code=1, output=message)
    return DraftValidation(exit_code=ran.exit_code, output=output)


async def write_draft_files(draft: PythonSkillDraft, environment: Environment) -> None:
    """Writes the skill below `skills/`, and an empty `data/`."""
    folder = f"skills/{draft.skill}"
    await environment.write(f"{folder}/scripts/{draft.file}", draft.code.encode())
    await environment.write(f"{folder}/tests/test_{draft.file}", draft.tests.encode())
    await environment.write("data/.keep", b"")
    await environment.write(RUNNER_FILE, read_runner_program())


def build_runner_command(
    mode: str, draft: PythonSkillDraft, token: str = "-", modules: Sequence[str] = ()
) -> str:
    words = [
        *("python3", "-I", "-B", "-X", "utf8", RUNNER_FILE, mode),
        *(f"skills/{draft.skill}", draft.function, token, *modules),
    ]
    return f"( {shlex.join(words)} )"


def read_runner_program() -> bytes:
    return (files("hermes.skills.compiler") / RUNNER_FILE).read_bytes()


class SkillTool:
    """Implements `Tool`; reports arguments that do not fit before an approval is requested."""

    def __init__(
        self,
        registered: RegisteredSkill,
        root: Path,
        data: Path,
        open_sandbox: OpenSandbox,
        *,
        timeout: float = 60.0,
    ) -> None:
        self.registered = registered
        self._root, self._data = root, data
        self._open_sandbox, self._timeout = open_sandbox, timeout
        self.spec = ToolSpec(
            name=registered.function,
            description=registered.description,
            parameters=registered.parameters,
            risk=Risk.CHANGE,  # it may write below data/
        )

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        draft = read_draft_folder(self._folder)
        kind = build_arguments_struct(parse_function(draft.code, draft.function))
        return convert_arguments(kind, self.registered.function, dict(arguments))

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        folder = self._folder
        if compute_skill_digest(folder) != self.registered.digest:
            raise ToolError(
                f"{self.registered.skill} was changed after it was compiled and is not run; "
                f"compile it again with: hermes skills compile {folder}"
            )
        converted = self.validate(arguments)
        draft, token = read_draft_folder(folder), f"{secrets.token_hex(8)} "
        modules = [Path(each) for each in self.registered.modules]
        async with self._open_sandbox([self._root, *modules]) as environment:
            links = f"ln -s {shlex.quote(str(self._root))} skills"
            await environment.run(f"{links}; ln -s {shlex.quote(str(self._data))} data")
            await environment.write(RUNNER_FILE, read_runner_program())
            ran = await environment.run(
                build_runner_command("call", draft, token, self.registered.modules),
                timeout=self._timeout,
                stdin=json.dumps(converted).encode(),
            )
        if ran.timed_out:
            raise ToolError(f"{self.registered.function} took longer than {self._timeout:g} s")
        before, found, after = ran.output.rpartition(token)
        if ran.exit_code != 0 or not found:
            raise ToolError(f"{self.registered.function} failed:\n{ran.output.strip()[-4000:]}")
        value = str(json.loads(after.splitlines()[0]))
        printed = before.strip()
        return f"{printed}\n{value}" if printed else value

    @property
    def _folder(self) -> Path:
        folder = self._root / self.registered.skill
        if not folder.is_dir():
            raise ToolError(f"{folder} is gone; see: hermes skills list")
        return folder
