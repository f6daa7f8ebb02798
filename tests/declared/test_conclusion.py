"""What experiments without a proof conclude: nothing is excluded that a copy cannot show."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_copy_trial import MemoryCopy

from hermes.declared.experiments.conclusion import conclude_unproved
from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.host_programs import HostPrograms, HostService
from hermes.declared.experiments.root_cause import RootCause, RootCauseStatus
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.state import Item, ItemId, StateChange
from hermes.declared.store import StateStore
from hermes.environments.copies import CopyLimits, CopyService, HostCopy

pytestmark = pytest.mark.anyio
DATA = "/srv/ledger: data of a running program: it is written all the time"


class CopyWithoutData(MemoryCopy):
    left_out = ("/mnt/far: a file system of kind nfs may not answer", DATA)


class HostOfCopies:
    async def copy(
        self, limits: CopyLimits | None = None, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        return CopyWithoutData()


def changed(path: str) -> Suspect:
    item = ItemId("file", path)
    return Suspect(change=StateChange(item, Item("before"), Item("after")))


async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
    return 0, b""


async def concluded(
    status: RootCauseStatus,
    suspects: Sequence[Suspect],
    folder: Path,
    lost: Sequence[Suspect] = (),
    held: Sequence[str] = (),
) -> tuple[str, str]:
    async def no_checks(copy: HostCopy, names: Sequence[str]) -> Sequence[CheckReading]:
        return ()

    service = HostService(
        name="ledger",
        state="active",
        unit_text="ExecStart=/usr/sbin/ledgerd --config=/etc/ledger.cnf",
        settings_text="datadir = /srv/ledger",
        named_text="datadir = /srv/ledger",
    )
    failing = CheckReading(name="port-3307", ok=False, detail="nothing answers")
    setup = CopySetup(
        source=HostOfCopies(),
        run_checks=no_checks,
        expected=ExpectedReadings(failing=(failing,)),
        programs=HostPrograms(services=(service,)),
        services=("ledger",),
        store=StateStore(folder),
        suspects=suspects,
    )
    cause = RootCause(status=status, why="it fails")
    return await conclude_unproved(cause, setup, lost, run, held)


async def test_changes_are_named_as_not_tested_where_a_copy_never_passes(tmp_path: Path) -> None:
    """The change of the failing service's own settings comes first, and no change is excluded."""
    suspects = [changed("/etc/motd"), changed("/etc/ledger.cnf")]
    lost = [changed("/srv/ledger/log.01")]
    status, why = await concluded("untestable", suspects, tmp_path, lost)
    assert status == "impossible"
    assert why.startswith("could not be tested on a copy: file /etc/ledger.cnf")
    assert "file /etc/motd" in why
    assert f"not in the copy: {DATA}" in why
    assert "cannot be put back in a copy: file /srv/ledger/log.01" in why
    assert "no cause" not in why


async def test_a_fault_that_a_copy_does_not_show_leaves_the_changes_untested(
    tmp_path: Path,
) -> None:
    status, why = await concluded("not-reproduced", [changed("/etc/ledger.cnf")], tmp_path)
    assert status == "not-reproduced"
    assert why.startswith("it fails; not in the copy: /srv/ledger")
    assert why.endswith("not tested: file /etc/ledger.cnf")


async def test_what_cannot_be_put_back_is_not_excluded_where_nothing_else_changed(
    tmp_path: Path,
) -> None:
    status, why = await concluded("ruled-out", (), tmp_path, [changed("/etc/ledger.cnf")])
    assert status == "impossible"
    assert why.startswith("could not be tested on a copy: file /etc/ledger.cnf")


async def test_a_process_that_holds_the_port_of_the_service_is_named(tmp_path: Path) -> None:
    held = "port 3307 is held by pid 9 (python hold.py)"
    status, why = await concluded("not-reproduced", [], tmp_path, held=[held])
    assert status == "not-reproduced"
    assert f"a copy does not have this: {held}" in why
