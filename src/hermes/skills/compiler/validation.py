"""A draft in the sandbox: its tests, its docstring, and whether its tests would notice anything."""

import shlex
from collections.abc import Sequence
from importlib.resources import files

from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.skills.compiler.draft import Draft

INSIDE = "runner.py"
HOLLOW = (
    "the tests pass although {function} was replaced by a function that does nothing: "
    "assert on what it returns or writes"
)


class Validation(Value, kw_only=True, frozen=True):
    exit_code: int
    output: str = ""
    """What the tests said; at its end the traceback that a repair needs."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


async def validate(
    draft: Draft, place: Environment, *, timeout: float = 60.0, modules: Sequence[str] = ()
) -> Validation:
    """Raises `PlaceFailed`. Whatever the code does is a result."""
    await lay_out(draft, place)
    ran = await place.run(command("suite", draft, modules=modules), timeout=timeout)
    output = ran.output.strip()
    if ran.timed_out:
        late = f"{output}\nTimeoutError: the tests took longer than {timeout:g} s"
        return Validation(exit_code=124, output=late, seconds=ran.seconds)
    if ran.exit_code != 0:
        return Validation(exit_code=ran.exit_code, output=output, seconds=ran.seconds)
    hollow = await place.run(command("hollow", draft, modules=modules), timeout=timeout)
    if hollow.exit_code == 0:
        told = HOLLOW.format(function=draft.function)
        return Validation(exit_code=1, output=told, seconds=ran.seconds)
    return Validation(exit_code=0, output=output, seconds=ran.seconds)


async def lay_out(draft: Draft, place: Environment) -> None:
    """The skill as it will lie in `skills/`, and an empty `data/`."""
    folder = f"skills/{draft.skill}"
    await place.write(f"{folder}/scripts/{draft.file}", draft.code.encode())
    await place.write(f"{folder}/tests/test_{draft.file}", draft.tests.encode())
    await place.write("data/.keep", b"")
    await place.write(INSIDE, inside())


def command(what: str, draft: Draft, token: str = "-", modules: Sequence[str] = ()) -> str:
    words = [
        *("python3", "-I", "-B", "-X", "utf8", INSIDE, what),
        *(f"skills/{draft.skill}", draft.function, token, *modules),
    ]
    return f"( {shlex.join(words)} )"


def inside() -> bytes:
    return (files("hermes.skills.compiler.inside") / INSIDE).read_bytes()
