"""What a copy cannot show of a change is no reason to give up an experiment."""

import shlex
from pathlib import Path

import pytest
from test_copy_trial import MemoryCopy, trial_setup

from hermes.declared.experiments.copy_changes import put_back
from hermes.declared.experiments.put_back import CannotRevertError
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import Item, ItemId, StateChange
from hermes.environments.copies import CopyOutput

pytestmark = pytest.mark.anyio
MOUNT = ItemId("mount", "/var/lib/redis")


class MountedCopy(MemoryCopy):
    """A copy in which nothing can be mounted, as in a real one."""

    def __init__(self, *, writable: bool) -> None:
        super().__init__()
        self._writable = writable

    async def run(self, command: str, *, timeout_s: float = 30.0, stdin: bytes = b"") -> CopyOutput:
        program = shlex.split(command)[0]
        allowed = program == "test" and self._writable
        return CopyOutput(code=0 if allowed else 32, output="permission denied")


def remounted(before: str, after: str) -> Revert:
    items = [Item(attributes={"options": each}) for each in (before, after)]
    return Revert(suspect=Suspect(change=StateChange(MOUNT, *items)))


async def test_a_file_system_that_is_writable_in_the_copy_is_as_it_was(tmp_path: Path) -> None:
    setup = trial_setup({False: True, True: True})
    await put_back(MountedCopy(writable=True), setup, [remounted("rw,relatime", "ro,relatime")])


@pytest.mark.parametrize(
    ("writable", "before", "after"),
    [(False, "rw,relatime", "ro,relatime"), (True, "ro,relatime", "rw,relatime")],
)
async def test_one_that_is_not_cannot_be_put_back(writable: bool, before: str, after: str) -> None:
    setup = trial_setup({False: True, True: True})
    with pytest.raises(CannotRevertError, match="permission denied"):
        await put_back(MountedCopy(writable=writable), setup, [remounted(before, after)])
