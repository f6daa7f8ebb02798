"""Joins the compiler of Python skills to sandboxes, installer and journal."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.core.errors import ToolError
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import CompilerReported, SkillChanged
from hermes.core.plugins import plugin_names
from hermes.core.protocols import Environment, Model, PublishEvents, ToolContext
from hermes.settings.load import LoadedSettings
from hermes.skills.compiler.registry import RegisteredSkill, read_registry, register_skill

if TYPE_CHECKING:
    from hermes.skills.compiler.build import CompiledSkill, SkillCompiler
    from hermes.skills.compiler.draft import PythonSkillDraft
    from hermes.skills.compiler.sandbox import SkillTool

OutputCallback = Callable[[str], None]


class SkillWorkshop:
    """Builds, stores and runs the Python skills of one home."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._settings = loaded.settings.skills
        self.root = loaded.home / "skills"
        self.data = loaded.home / "data"

    def open_compiler(
        self, publish: PublishEvents, run: str, skill: str, on_output: OutputCallback | None = None
    ) -> "SkillCompiler":
        from hermes.skills.compiler.build import (
            SHIPPED_MODULE_LIST,
            USER_MODULE_LIST,
            SkillCompiler,
            read_allowed_modules,
        )

        async def say(speaker: str, text: str) -> None:
            if on_output is not None:
                on_output(f"[{speaker}] {text}")
            await publish(CompilerReported(run=run, skill=skill, speaker=speaker, text=text))

        return SkillCompiler(
            self.open_sandbox,
            say,
            install=self.install,
            allowed_modules=read_allowed_modules(SHIPPED_MODULE_LIST, self.root / USER_MODULE_LIST),
            max_repairs=self._settings.repairs,
            test_timeout_s=self._settings.test_timeout,
        )

    def open_sandbox(self, readable: Sequence[Path]) -> AbstractAsyncContextManager[Environment]:
        return self._sandbox(readable, ())

    def open_data_sandbox(
        self, readable: Sequence[Path]
    ) -> AbstractAsyncContextManager[Environment]:
        """The same, with write access to the real `data` folder."""
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
        async with SandboxEnvironment(None, {}, settings=settings) as environment:
            yield environment

    async def install(self, lines: Sequence[str]) -> Path:
        """Unpack wheels with known hashes into a folder of their own; none of their code runs.

        Raises `ToolError` with the message of pip.
        """
        import hashlib
        import shutil
        import sys

        from hermes.environments.local import LocalEnvironment
        from hermes.environments.open import select_variables
        from hermes.skills.compiler.build import pip_install_command

        text = "".join(f"{line}\n" for line in lines)
        target = self.root / ".modules" / hashlib.sha256(text.encode()).hexdigest()[:16]
        if target.is_dir():
            return target
        fresh, listed = target.with_suffix(".new"), target.with_suffix(".txt")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        listed.write_text(text, encoding="utf-8")
        command = pip_install_command(
            sys.executable, str(fresh), str(listed), self._settings.wheels
        )
        secrets = self._loaded.secrets
        variables = select_variables(secrets, withheld=secrets.kept)
        async with LocalEnvironment(fresh.parent, variables) as environment:
            ran = await environment.run(command, timeout=180.0)
        if ran.exit_code != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            needed = ", ".join(line.split()[0] for line in lines)
            raise ToolError(f"{needed} could not be installed: {ran.output.strip()[-800:]}")
        fresh.rename(target)
        return target

    async def save(
        self, compiled: "CompiledSkill", publish: PublishEvents, run: str, by: str
    ) -> RegisteredSkill:
        """Store the skill on the disk, in its history, in the journal and among the tools."""
        from hermes.skills.compiler.draft import write_draft_folder
        from hermes.skills.format import compute_skill_digest
        from hermes.skills.history import SkillHistory

        draft, folder = compiled.draft, self.root / compiled.draft.skill
        parents = (compute_skill_digest(folder),) if folder.is_dir() else ()
        write_draft_folder(folder, draft, compiled.signature, compiled.requirements)
        digest = compute_skill_digest(folder)
        SkillHistory(self.root).record(folder, reason="compiled", by=by)
        modules = (str(await self.install(compiled.requirements)),) if compiled.requirements else ()
        known = RegisteredSkill(
            skill=draft.skill,
            function=draft.function,
            digest=digest,
            description=compiled.signature.docstring,
            parameters=compiled.signature.schema,
            modules=modules,
            task=draft.task[:2000],
        )
        drafted = SkillChanged(
            run=run,
            skill=draft.skill,
            digest=digest,
            state="draft",
            parents=parents,
            reason=draft.task[:300],
            by=by,
        )
        tested = msgspec.structs.replace(
            drafted,
            state="compiled",
            before="draft",
            evidence=tuple(compiled.output.splitlines()[-12:]),
            reason=f"its tests pass in the sandbox after {compiled.repairs} repairs",
        )
        await publish(drafted, tested)
        register_skill(self.root, known)
        return known

    async def prove(
        self,
        draft: "PythonSkillDraft",
        publish: PublishEvents,
        run: str,
        on_output: OutputCallback | None = None,
    ) -> "CompiledSkill":
        """Prove without a model that could fix it. Raises `CompilationFailed`."""
        self._require_free_name(draft.function)
        return await self.open_compiler(publish, run, draft.skill, on_output).compile(draft)

    async def registered(
        self,
        draft: "PythonSkillDraft",
        publish: PublishEvents,
        run: str,
        on_output: OutputCallback | None = None,
    ) -> None:
        forge = self.open_compiler(publish, run, draft.skill, on_output)
        await forge.report_progress("Core", f"Skill '{draft.function}' successfully registered.")

    async def create(
        self,
        context: ToolContext,
        name: str,
        task: str,
        model: Model,
        on_output: OutputCallback | None = None,
    ) -> tuple["CompiledSkill", RegisteredSkill]:
        """Create with a model. Raises `CompilationFailed`, `ModelError`, `EnvironmentFailed`."""
        from hermes.skills.compiler.draft import SkillDrafter, to_function_name

        function = to_function_name(name)
        self._require_free_name(function)
        self._require_new_task(function, task)
        forge = self.open_compiler(
            context.publish, context.run, function.replace("_", "-"), on_output
        )
        await forge.report_progress("Core", "No tool found for task…")
        await forge.report_progress("Compiler", f"Drafting '{function}.py'…")
        drafter = SkillDrafter(model, function, task, tuple(forge.allowed_modules))
        try:
            compiled = await forge.compile(await drafter.draft(), drafter.repair)
        finally:
            costs = [
                ModelAnswered(run=context.run, model=each.model, usage=each.usage)
                for each in drafter.completions
            ]
            await context.publish(*costs)
        known = await self.save(compiled, context.publish, context.run, "agent")
        await self.registered(compiled.draft, context.publish, context.run, on_output)
        return compiled, known

    def _require_free_name(self, function: str) -> None:
        from hermes.tools.yaml_tools import load_tool_folder

        folder = self._loaded.home / "tools"
        declared = load_tool_folder(folder).tools if folder.is_dir() else {}
        if function in plugin_names("tools", self._loaded.home) or function in declared:
            raise ToolError(f"there is a tool {function} already; choose another name")

    def _require_new_task(self, function: str, task: str) -> None:
        """A skill for the same task is extended under its own name; another name would duplicate
        it."""
        from hermes.skills.lifecycle.similarity import MIN_SIMILARITY, compute_text_similarity

        for known in read_registry(self.root):
            alike = compute_text_similarity(task, known.task) >= MIN_SIMILARITY
            if alike and known.function != function:
                raise ToolError(
                    f"{known.function} does nearly the same: call it, or create "
                    f"{known.function} again with what it is to do beyond that"
                )

    def tool(self, known: RegisteredSkill) -> "SkillTool":
        from hermes.skills.compiler.sandbox import SkillTool

        timeout = self._settings.test_timeout
        return SkillTool(known, self.root, self.data, self.open_data_sandbox, timeout=timeout)

    def tools(self) -> "list[SkillTool]":
        """All compiled skills, retired ones as well."""
        return [self.tool(known) for known in read_registry(self.root)]

    def find(self, name: str) -> "SkillTool":
        registered = read_registry(self.root)
        for known in registered:
            if name in (known.skill, known.function):
                return self.tool(known)
        existing = ", ".join(each.function for each in registered) or "none yet"
        raise ToolError(f"there is no Python skill {name!r}; there are: {existing}")
