"""Changes parts of files: tolerant in finding the place, exact in what it writes, all or nothing.

Either one passage (`path`, `old`, `new`) or a unified diff over any number of files, in which the
line numbers are only hints and may be left out.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated

import anyio
from anyio import to_thread

from hermes.core.errors import HermesError, ToolError
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Environment, Tool, ToolContext
from hermes.tools.declare import about, tool
from hermes.tools.editing import apply_hunks, replace
from hermes.tools.encoding import decode, printable
from hermes.tools.kit import Kit
from hermes.tools.nearby import explain, shell_word
from hermes.tools.read_file import TRACKED
from hermes.tools.seen import digest_of
from hermes.tools.unified import FileDiff, parse


class _Change(Value, frozen=True):
    path: str
    before: bytes | None
    """None when the file is new."""
    after: bytes
    account: str


def make(kit: Kit) -> Tool:
    @tool(risk=Risk.CHANGE)
    async def patch(
        context: ToolContext,
        path: str = "",
        old: Annotated[str, about("text to replace; must occur once")] = "",
        new: str = "",
        replace_all: bool = False,
        diff: Annotated[str, about("instead: a unified diff, also of several files")] = "",
    ) -> str:
        """Replace a passage of a file, or apply a diff (all of it or nothing)."""
        if bool(diff) == bool(old):
            raise ToolError("give either path, old and new, or diff")
        if old and not path:
            raise ToolError("path is missing: which file?")
        files = parse(diff, path) if diff else []
        async with AsyncExitStack() as held:
            for name in sorted({file.path for file in files} or {path}):
                await held.enter_async_context(kit.seen.lock(context, name))
            if files:
                changes = [await _hunks(kit, context, file) for file in files]
            else:
                changes = [await _passage(kit, context, path, (old, new, replace_all))]
            await _write(context.environment, changes)
            for change in changes:
                kit.seen.note(context, change.path, digest_of(change.after))
        return "\n".join(printable(f"{_verb(c)} {c.path}\n{c.account}") for c in changes)

    return patch


async def _passage(
    kit: Kit, context: ToolContext, path: str, wanted: tuple[str, str, bool]
) -> _Change:
    before = await _read(kit, context, path)
    decoded = decode(before)
    if decoded is None:
        raise ToolError(f"{path} is not a text file")
    old, new, every = wanted
    work = partial(replace, path, decoded.text, old, new, every=every)
    edited = await to_thread.run_sync(work)  # seconds, for a large file that holds nothing like it
    return _Change(path, before, decoded.encode(edited.text), edited.account)


async def _hunks(kit: Kit, context: ToolContext, file: FileDiff) -> _Change:
    if file.creates:
        return await _creation(kit, context, file)
    before = await _read(kit, context, file.path)
    decoded = decode(before)
    if decoded is None:
        raise ToolError(f"{file.path} is not a text file")
    edited = await to_thread.run_sync(apply_hunks, file.path, decoded.text, file.hunks)
    return _Change(file.path, before, decoded.encode(edited.text), edited.account)


async def _creation(kit: Kit, context: ToolContext, file: FileDiff) -> _Change:
    try:
        await context.environment.read(file.path, limit=1)
    except ToolError:
        kit.seen.check(context, file.path, None)
        edited = apply_hunks(file.path, "", file.hunks)
        lines = f"{edited.text.count(chr(10))} lines"
        return _Change(file.path, None, edited.text.encode(), lines)
    raise ToolError(f"the diff creates {file.path}, which is there already; nothing was changed")


async def _read(kit: Kit, context: ToolContext, path: str) -> bytes:
    try:
        data = await context.environment.read(path, limit=TRACKED + 1)
    except ToolError as error:
        kit.seen.check(context, path, None)
        raise await explain(context.environment, path, error) from error
    if len(data) > TRACKED:
        raise ToolError(f"{path} is over {TRACKED:,} bytes: change it with sed through terminal")
    kit.seen.check(context, path, digest_of(data))
    return data


async def _write(environment: Environment, changes: Sequence[_Change]) -> None:
    """All files or none: what was written before a failure is put back."""
    with anyio.CancelScope(shield=True):
        written: list[_Change] = []
        try:
            for change in changes:
                written.append(change)
                await environment.write(change.path, change.after)
        except HermesError:
            for change in written[:-1]:
                if change.before is None:
                    await environment.run(f"rm -f {shell_word(change.path)}")
                else:
                    await environment.write(change.path, change.before)
            raise


def _verb(change: _Change) -> str:
    return "created" if change.before is None else "patched"
