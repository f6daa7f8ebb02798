"""Compiles a draft: checks it, tests it, lets a model repair it, and lists pinned requirements.

Modules may be installed for a skill only from a list, at one version, with known hashes.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.core.errors import SettingsError, ToolError
from hermes.core.messages import Value
from hermes.skills.compiler.code_checks import CodeCheckResult, check_draft
from hermes.skills.compiler.draft import PythonSkillDraft
from hermes.skills.compiler.function_signature import FunctionSignature
from hermes.skills.compiler.sandbox import DraftValidation, OpenSandbox, validate_draft

SHIPPED_MODULE_LIST = Path(__file__).with_name("allowed_modules.txt")
USER_MODULE_LIST = "modules.txt"
_PINNED_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+]+(\s+--hash=sha256:[0-9a-f]{64})+")
_MODULE_NAME = re.compile(r"[A-Za-z_]\w*")

ReportProgress = Callable[[str, str], Awaitable[None]]
"""Called with a component (Core, Compiler, Sandbox) and a text for the operator."""
RepairDraft = Callable[[str], Awaitable[PythonSkillDraft]]
InstallRequirements = Callable[[Sequence[str]], Awaitable[Path]]
"""Installs pinned requirements into a separate folder, once, and returns its path."""


class CompilationFailed(ToolError):
    """The text describes the last failure and what to do."""


class CompiledSkill(Value, kw_only=True, frozen=True):
    draft: PythonSkillDraft
    signature: FunctionSignature
    requirements: tuple[str, ...] = ()
    repairs: int = 0
    output: str = ""
    """What the tests printed."""


@dataclass(frozen=True)
class SkillCompiler:
    open_sandbox: OpenSandbox
    report_progress: ReportProgress
    install: InstallRequirements
    allowed_modules: Mapping[str, Sequence[str]]
    """Modules that may be installed, with their pinned requirements."""
    max_repairs: int
    test_timeout_s: float

    async def compile(
        self, draft: PythonSkillDraft, repair: RepairDraft | None = None
    ) -> CompiledSkill:
        """Raises `CompilationFailed` after the last repair; `EnvironmentFailed` without sandbox."""
        for number in range(self.max_repairs + 1):
            checked = check_draft(draft, self.allowed_modules)
            if checked.ok and checked.signature is not None:
                validation, lines = await self._validate(draft, checked)
                if validation.ok:
                    return CompiledSkill(
                        draft=draft,
                        signature=checked.signature,
                        requirements=lines,
                        repairs=number,
                        output=validation.output,
                    )
                failure = validation.output
            else:
                failure = _list_problems(draft, checked)
                await self.report_progress(
                    "Compiler", f"'{draft.file}' was refused: {failure.splitlines()[0]}"
                )
            if repair is None or number == self.max_repairs:
                raise CompilationFailed(_failure_message(draft, number, failure))
            attempt = f"{number + 1} of {self.max_repairs}"
            await self.report_progress("Compiler", f"Repairing '{draft.file}' ({attempt})…")
            draft = await repair(failure)
        raise AssertionError("the loop returns or raises")

    async def _validate(
        self, draft: PythonSkillDraft, checked: CodeCheckResult
    ) -> tuple[DraftValidation, tuple[str, ...]]:
        required = (line for name in checked.modules for line in self.allowed_modules[name])
        lines = tuple(dict.fromkeys(required))
        readable = [await self.install(lines)] if lines else []
        modules = [str(path) for path in readable]
        async with self.open_sandbox(readable) as environment:
            validation = await validate_draft(
                draft, environment, timeout=self.test_timeout_s, modules=modules
            )
        progress = f"Executing validation suite… Exit code: {validation.exit_code}"
        await self.report_progress("Sandbox", progress)
        return validation, lines


def _list_problems(draft: PythonSkillDraft, checked: CodeCheckResult) -> str:
    if not draft.code:
        return "no code: the answer must have a ```python block with the function"
    return "\n".join(map(str, checked.problems)) or "the code cannot be used"


def _failure_message(draft: PythonSkillDraft, repairs: int, failure: str) -> str:
    tried = f"after {repairs} repairs" if repairs else "as it stands"
    return (
        f"{draft.file} could not be compiled {tried}; nothing was registered. The last failure:\n"
        f"{failure[-3000:]}\n"
        "Describe the task more precisely, or fix the files by hand and run: "
        "hermes skills compile FOLDER"
    )


def read_allowed_modules(*files: Path) -> dict[str, tuple[str, ...]]:
    """Module → pinned requirements. A later file wins. Raises `SettingsError` with the line."""
    found: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file.is_file():
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if line.strip() and not line.lstrip().startswith("#"):
                    name, pinned = _parse_line(line, f"{file}:{number}")
                    found[name] = pinned
    return found


def _parse_line(line: str, where: str) -> tuple[str, tuple[str, ...]]:
    name, colon, rest = line.partition(":")
    if not colon or not _MODULE_NAME.fullmatch(name.strip()):
        raise SettingsError(f"{where}: expected `module: package==version --hash=sha256:…`")
    pinned = tuple(" ".join(part.split()) for part in rest.split(";") if part.strip())
    for each in pinned:
        if not _PINNED_REQUIREMENT.fullmatch(each):
            raise SettingsError(
                f"{where}: {each[:80]!r} is not pinned; write package==version and one "
                "--hash=sha256:… or more"
            )
    return name.strip(), pinned


def pip_install_command(python: str, target: str, file: str, wheels: str = "") -> str:
    """Only wheels, only listed packages, each with a known hash."""
    words = [python, "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"]
    words += ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    words += ["--no-index", "--find-links", wheels] if wheels else []
    return shlex.join([*words, "--target", target, "--requirement", file])
