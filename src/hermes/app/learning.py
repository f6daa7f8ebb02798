"""Joins the making of Python skills to the house: sandboxes, installer, journal, tools."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.app.skills import states_in
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import CompilerSaid, SkillChanged
from hermes.core.messages import Completion
from hermes.core.plugins import names
from hermes.core.protocols import Environment, Journal, Model, Tool, ToolContext
from hermes.settings.load import Loaded
from hermes.skills.compiler.registered import Registered, read_registered, register
from hermes.tools.skill_forge import make_forge

if TYPE_CHECKING:
    from hermes.skills.compiler.draft import Draft
    from hermes.skills.compiler.forge import Compiled, Forge
    from hermes.skills.compiler.skill_tool import SkillTool

Publish = Callable[..., Awaitable[Sequence[int]]]
Heard = Callable[[str], None]


class Workshop:
    """Where Python skills of one home are made, kept and run."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._settings = loaded.settings.skills
        self.root = loaded.home / "skills"
        self.data = loaded.home / "data"

    def forge(self, publish: Publish, run: str, skill: str, heard: Heard | None = None) -> "Forge":
        from hermes.skills.compiler.forge import Forge
        from hermes.skills.compiler.modules import OWN, SHIPPED, read_allowed

        async def say(speaker: str, text: str) -> None:
            if heard is not None:
                heard(f"[{speaker}] {text}")
            await publish(CompilerSaid(run=run, skill=skill, speaker=speaker, text=text))

        return Forge(
            self.place,
            say,
            install=self.install,
            allowed=read_allowed(SHIPPED, self.root / OWN),
            repairs=self._settings.repairs,
            timeout=self._settings.test_timeout,
        )

    def place(self, readable: Sequence[Path]) -> AbstractAsyncContextManager[Environment]:
        return self._sandbox(readable, ())

    def working_place(self, readable: Sequence[Path]) -> AbstractAsyncContextManager[Environment]:
        """The same, with the real `data` folder to write to."""
        self.data.mkdir(parents=True, exist_ok=True)
        return self._sandbox(readable, (self.data,))

    @asynccontextmanager
    async def _sandbox(
        self, readable: Sequence[Path], writable: Sequence[Path]
    ) -> AsyncIterator[Environment]:
        from hermes.environments.sandbox import SandboxEnvironment

        settings = msgspec.structs.replace(
            self._loaded.settings.terminal,
            cwd="",
            network=False,
            memory_mb=self._settings.memory_mb,
            readable=tuple(map(str, readable)),
            writable=tuple(map(str, writable)),
        )
        async with SandboxEnvironment(None, {}, settings=settings) as place:
            yield place

    async def install(self, lines: Sequence[str]) -> Path:
        """Wheels with known hashes, unpacked into a folder of their own; none of their code runs.

        Raises `ToolError` with what pip said.
        """
        import hashlib
        import shutil
        import sys

        from hermes.environments.local import LocalEnvironment
        from hermes.environments.variables import child_variables
        from hermes.skills.compiler.modules import install_command

        text = "".join(f"{line}\n" for line in lines)
        target = self.root / ".modules" / hashlib.sha256(text.encode()).hexdigest()[:16]
        if target.is_dir():
            return target
        fresh, listed = target.with_suffix(".new"), target.with_suffix(".txt")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        listed.write_text(text, encoding="utf-8")
        command = install_command(sys.executable, str(fresh), str(listed), self._settings.wheels)
        secrets = self._loaded.secrets
        variables = child_variables(secrets, withheld=secrets.kept)
        async with LocalEnvironment(fresh.parent, variables) as place:
            ran = await place.run(command, timeout=180.0)
        if ran.exit_code != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            needed = ", ".join(line.split()[0] for line in lines)
            raise ToolError(f"{needed} could not be installed: {ran.output.strip()[-800:]}")
        fresh.rename(target)
        return target

    async def keep(self, made: "Compiled", publish: Publish, run: str, by: str) -> Registered:
        """The skill on the disk, in its history, in the journal and among the tools."""
        from hermes.skills.compiler.draft import write_folder
        from hermes.skills.format.digest import digest_of
        from hermes.skills.history import History

        draft, folder = made.draft, self.root / made.draft.skill
        parents = (digest_of(folder),) if folder.is_dir() else ()
        write_folder(folder, draft, made.signature, made.requirements)
        digest = digest_of(folder)
        History(self.root).record(folder, reason="compiled", by=by)
        modules = (str(await self.install(made.requirements)),) if made.requirements else ()
        known = Registered(
            skill=draft.skill,
            function=draft.function,
            digest=digest,
            description=made.signature.about,
            parameters=made.signature.schema,
            modules=modules,
            task=draft.task[:2000],
        )
        step = SkillChanged(run=run, skill=draft.skill, digest=digest, state="draft", by=by)
        await publish(
            msgspec.structs.replace(step, parents=parents, reason=draft.task[:300]),
            msgspec.structs.replace(
                step,
                state="compiled",
                before="draft",
                parents=parents,
                evidence=tuple(made.output.splitlines()[-12:]),
                reason=f"its tests pass in the sandbox after {made.repairs} repairs",
            ),
        )
        register(self.root, known)
        return known

    async def prove(
        self, draft: "Draft", publish: Publish, run: str, heard: Heard | None = None
    ) -> "Compiled":
        """By hand: no model mends it. Raises `NotCompiled`."""
        self._free(draft.function)
        return await self.forge(publish, run, draft.skill, heard).compile(draft)

    async def registered(
        self, draft: "Draft", publish: Publish, run: str, heard: Heard | None = None
    ) -> None:
        forge = self.forge(publish, run, draft.skill, heard)
        await forge.say("Core", f"Skill '{draft.function}' successfully registered.")

    async def compile(
        self, draft: "Draft", publish: Publish, run: str, by: str, heard: Heard | None = None
    ) -> tuple["Compiled", Registered]:
        """Proven and kept. Raises `NotCompiled`."""
        made = await self.prove(draft, publish, run, heard)
        known = await self.keep(made, publish, run, by)
        await self.registered(draft, publish, run, heard)
        return made, known

    async def create(
        self, context: ToolContext, name: str, task: str, model: Model, heard: Heard | None = None
    ) -> tuple["Compiled", Registered]:
        """By a model. Raises `NotCompiled`, `ModelError`, `PlaceFailed`."""
        from hermes.skills.compiler.draft import function_name
        from hermes.skills.compiler.drafting import Drafter

        function = function_name(name)
        self._free(function)
        self._new(function, task)
        forge = self.forge(context.publish, context.run, function.replace("_", "-"), heard)
        await forge.say("Core", "No tool found for task…")
        await forge.say("Compiler", f"Drafting '{function}.py'…")
        drafter = Drafter(model, function, task, tuple(forge.allowed))
        try:
            made = await forge.compile(await drafter.draft(), drafter.repair)
        finally:
            await context.publish(*_costs(context.run, drafter.completions))
        known = await self.keep(made, context.publish, context.run, "agent")
        await self.registered(made.draft, context.publish, context.run, heard)
        return made, known

    def _free(self, function: str) -> None:
        from hermes.tools.declared import load_folder

        folder = self._loaded.home / "tools"
        declared = load_folder(folder).tools if folder.is_dir() else {}
        if function in names("tools") or function in declared:
            raise ToolError(f"there is a tool {function} already; choose another name")

    def _new(self, function: str, task: str) -> None:
        """Under its own name a skill is extended; under another it would only multiply."""
        from hermes.skills.lifecycle.likeness import SAME, alike

        for known in read_registered(self.root):
            if known.function != function and alike(task, known.task) >= SAME:
                raise ToolError(
                    f"{known.function} does nearly the same: call it, or create "
                    f"{known.function} again with what it is to do beyond that"
                )

    def tool(self, known: Registered) -> "SkillTool":
        from hermes.skills.compiler.skill_tool import SkillTool

        timeout = self._settings.test_timeout
        return SkillTool(known, self.root, self.data, self.working_place, timeout=timeout)

    def find(self, name: str) -> "SkillTool":
        registered = read_registered(self.root)
        for known in registered:
            if name in (known.skill, known.function):
                return self.tool(known)
        there = ", ".join(each.function for each in registered) or "none yet"
        raise ToolError(f"there is no Python skill {name!r}; there are: {there}")


async def skill_tools(
    loaded: Loaded, journal: Journal, model: Callable[[], Model], made: dict[str, Tool]
) -> dict[str, Tool]:
    """The tools that make and call Python skills, and each compiled skill as its own.

    What is created while the house is open is put into `made`, which its executor asks each time.
    """
    workshop = Workshop(loaded)

    async def create(context: ToolContext, name: str, task: str) -> str:
        lines: list[str] = []
        compiled, known = await workshop.create(context, name, task, model(), lines.append)
        takes = ", ".join(f"{each.name}: {each.told}" for each in compiled.signature.parameters)
        made[known.function] = workshop.tool(known)
        told = f"{known.function}({takes}) is a tool of yours from now on."
        return "\n".join([*lines, told])

    own: dict[str, Tool] = make_forge(create, workshop.find)
    registered = read_registered(workshop.root)
    states = await states_in(journal) if registered else {}
    for known in registered:
        if states.get(known.skill) != "retired":
            own[known.function] = workshop.tool(known)
    return own


def _costs(run: str, completions: Sequence[Completion]) -> list[Event]:
    return [ModelAnswered(run=run, model=each.model, usage=each.usage) for each in completions]
