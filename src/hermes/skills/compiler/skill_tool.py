"""A compiled skill as a tool: checked arguments in, one run in a sandbox, its value out."""

import json
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import Environment, ToolContext
from hermes.skills.compiler.draft import read_folder
from hermes.skills.compiler.registered import Registered
from hermes.skills.compiler.signature import arguments_of, find_function, fit
from hermes.skills.compiler.validation import INSIDE, command, inside
from hermes.skills.format.digest import digest_of

OpenPlace = Callable[[Sequence[Path]], AbstractAsyncContextManager[Environment]]
"""A sandbox with an empty working folder that may write to `data`; the paths may be read."""


class SkillTool:
    """Fulfils `Tool`, and says before anybody is asked when the arguments do not fit."""

    def __init__(
        self, known: Registered, root: Path, data: Path, place: OpenPlace, *, timeout: float = 60.0
    ) -> None:
        self.known = known
        self._root, self._data = root, data
        self._place, self._timeout = place, timeout
        self.spec = ToolSpec(
            name=known.function,
            description=known.description,
            parameters=known.parameters,
            risk=Risk.CHANGE,  # it may write below data/, and nowhere else
        )

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        draft = read_folder(self._folder)
        kind = arguments_of(find_function(draft.code, draft.function))
        return fit(kind, self.known.function, dict(arguments))

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        folder = self._folder
        if digest_of(folder) != self.known.digest:
            raise ToolError(
                f"{self.known.skill} was changed after it was compiled and is not run; prove it "
                f"again with: hermes skills compile {folder}"
            )
        given = self.fit(arguments)
        draft, token = read_folder(folder), f"{secrets.token_hex(8)} "
        modules = [Path(each) for each in self.known.modules]
        async with self._place([self._root, *modules]) as place:
            links = f"ln -s {shlex.quote(str(self._root))} skills"
            await place.run(f"{links}; ln -s {shlex.quote(str(self._data))} data")
            await place.write(INSIDE, inside())
            ran = await place.run(
                command("call", draft, token, self.known.modules),
                timeout=self._timeout,
                stdin=json.dumps(given).encode(),
            )
        if ran.timed_out:
            raise ToolError(f"{self.known.function} took longer than {self._timeout:g} s")
        before, found, after = ran.output.rpartition(token)
        if ran.exit_code != 0 or not found:
            raise ToolError(f"{self.known.function} failed:\n{ran.output.strip()[-4000:]}")
        value = str(json.loads(after.splitlines()[0]))
        printed = before.strip()
        return f"{printed}\n{value}" if printed else value

    @property
    def _folder(self) -> Path:
        folder = self._root / self.known.skill
        if not folder.is_dir():
            raise ToolError(f"{folder} is gone; see: hermes skills list")
        return folder
