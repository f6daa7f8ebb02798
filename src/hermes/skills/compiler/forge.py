"""From a wish, or a folder, to a registered skill: draft, look over, prove, mend, register."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.skills.compiler.checks import Looked, look_over
from hermes.skills.compiler.draft import Draft
from hermes.skills.compiler.modules import requirements
from hermes.skills.compiler.signature import Signature
from hermes.skills.compiler.validation import Validation, validate

Say = Callable[[str, str], Awaitable[None]]
"""Who speaks (Core, Compiler, Sandbox), and what the operator reads."""
Repair = Callable[[str], Awaitable[Draft]]
Places = Callable[[Sequence[Path]], AbstractAsyncContextManager[Environment]]
"""Opens a sandbox with an empty working folder; the paths are folders it may read."""
Install = Callable[[Sequence[str]], Awaitable[Path]]
"""Installs pinned requirements into a folder of their own, once, and says where."""


class NotCompiled(ToolError):
    """It could not be made to work; the text says what failed last, and what to do."""


class Compiled(Value, kw_only=True, frozen=True):
    draft: Draft
    signature: Signature
    requirements: tuple[str, ...] = ()
    repairs: int = 0
    output: str = ""
    """What the tests said."""


async def nobody_installs(lines: Sequence[str]) -> Path:
    raise ToolError(f"nothing can be installed here; it needs {', '.join(lines)}")


@dataclass(frozen=True)
class Forge:
    places: Places
    say: Say
    install: Install = nobody_installs
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Modules that may be installed, with their pinned requirements."""
    repairs: int = 3
    timeout: float = 60.0

    async def compile(self, draft: Draft, repair: Repair | None = None) -> Compiled:
        """Raises `NotCompiled` after the last repair, `PlaceFailed` when there is no sandbox."""
        for number in range(self.repairs + 1):
            looked = look_over(draft, self.allowed)
            if looked.ok and looked.signature is not None:
                proven, lines = await self._prove(draft, looked)
                if proven.ok:
                    return Compiled(
                        draft=draft,
                        signature=looked.signature,
                        requirements=lines,
                        repairs=number,
                        output=proven.output,
                    )
                failure = proven.output
            else:
                failure = _listed(draft, looked)
                await self.say("Compiler", f"'{draft.file}' was refused: {failure.splitlines()[0]}")
            if repair is None or number == self.repairs:
                raise NotCompiled(_given_up(draft, number, failure))
            told = f"Repairing '{draft.file}' ({number + 1} of {self.repairs})…"
            await self.say("Compiler", told)
            draft = await repair(failure)
        raise AssertionError("the loop returns or raises")

    async def _prove(self, draft: Draft, looked: Looked) -> tuple[Validation, tuple[str, ...]]:
        lines = requirements(looked.modules, self.allowed)
        readable = [await self.install(lines)] if lines else []
        async with self.places(readable) as place:
            modules = [str(path) for path in readable]
            proven = await validate(draft, place, timeout=self.timeout, modules=modules)
        await self.say("Sandbox", f"Executing validation suite… Exit code: {proven.exit_code}")
        return proven, lines


def _listed(draft: Draft, looked: Looked) -> str:
    if not draft.code:
        return "no code: the answer has to hold a ```python block with the function"
    return "\n".join(map(str, looked.problems)) or "it cannot be used"


def _given_up(draft: Draft, repairs: int, failure: str) -> str:
    tried = f"after {repairs} repairs" if repairs else "as it stands"
    return (
        f"{draft.file} could not be compiled {tried}; nothing was registered. The last failure:\n"
        f"{failure[-3000:]}\n"
        "Say the task more exactly, or mend the files by hand and run: hermes skills compile FOLDER"
    )
