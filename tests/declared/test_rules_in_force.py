"""The rules of a real packet filter, in a network namespace of its own: recorded and reverted."""

import shutil
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from hermes.declared.collectors import services
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.collectors.services import HostServices
from hermes.declared.revert import plan_revert
from hermes.declared.state import State, StateChange, compare
from hermes.declared.store import StateStore
from hermes.environments.sandboxing.host_access import is_root

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not is_root() or not shutil.which("nft"), reason="needs root and nft"),
]
SCRIPT = Path(services.__file__).parent / "scripts/packet_filter.sh"
CHAIN = """\
table inet bench {
    set blocked { type ipv4_addr; }
    chain input {
        type filter hook input priority 0;
        ct state established accept
        ip saddr @blocked drop
    }
}
"""


@pytest.fixture
async def run() -> AsyncGenerator[RunCommand, None]:
    """Runs scripts in the namespace."""
    command = ["unshare", "-n", "sh", "-c", "echo; exec sleep 300"]
    async with await anyio.open_process(command, stderr=None) as kept:
        assert kept.stdout is not None
        await kept.stdout.receive()

        async def enter(script: str, stdin: bytes) -> tuple[int, bytes]:
            command = ["nsenter", "-t", str(kept.pid), "-n", "sh", "-c", script]
            done = await anyio.run_process(command, input=stdin, check=False)
            return done.returncode, done.stdout

        code, _ = await enter("nft -f -", CHAIN.encode())
        assert code == 0
        yield enter
        kept.kill()


class Host:
    def __init__(self, run: RunCommand, folder: Path) -> None:
        self.run, self.store = run, StateStore(folder / "states")

    async def collect(self) -> State:
        found = HostServices()
        _, output = await self.run(SCRIPT.read_text(), b"")
        found.add_packet_filter(output.decode())
        return State(
            host="h", at=datetime.now(UTC), items=found.items, left_out=tuple(found.left_out)
        )

    async def sh(self, script: str) -> str:
        code, output = await self.run(script, b"")
        assert code == 0, output
        return output.decode()

    async def change_after(self, script: str) -> StateChange:
        before = await self.collect()
        await self.sh(script)
        changes = compare(before, await self.collect())
        [found] = changes
        return found

    async def rules(self) -> str:
        return await self.sh("nft list ruleset")

    async def revert_and_undo(self, change: StateChange, before: str) -> None:
        broken = await self.rules()
        [step] = plan_revert(change, self.store, "").steps
        await self.sh(step.command)
        assert await self.rules() == before
        await self.sh(step.undo)
        assert await self.rules() == broken


@pytest.fixture
def host(run: RunCommand, tmp_path: Path) -> Host:
    return Host(run, tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        "nft add rule inet bench input tcp dport 6379 drop",
        "nft insert rule inet bench input tcp dport { 80, 443 } counter drop",
        "nft insert rule inet bench input tcp dport 22 drop comment '\"not now\"'",
        "nft chain inet bench input '{ policy drop; }'",
        "nft delete rule inet bench input handle $(nft -a list chain inet bench input"
        " | sed -n 's/.*@blocked drop # handle //p')",
    ],
)
async def test_a_change_is_seen_reverted_and_undone(host: Host, script: str) -> None:
    before = await host.rules()
    await host.revert_and_undo(await host.change_after(script), before)


async def test_a_rule_that_is_another_one_by_now_stays(host: Host) -> None:
    change = await host.change_after("nft add rule inet bench input tcp dport 6379 drop")
    [step] = plan_revert(change, host.store, "").steps
    assert change.after is not None
    handle = change.after.attributes["handle"]
    await host.sh(f"nft replace rule inet bench input handle {handle} tcp dport 22 accept")
    before = await host.rules()
    code, _ = await host.run(step.command, b"")
    assert code != 0
    assert await host.rules() == before


async def test_elements_of_sets_are_no_changes(host: Host) -> None:
    before = await host.collect()
    await host.sh("nft add element inet bench blocked '{ 1.2.3.4 }'")
    assert compare(before, await host.collect()) == ()


async def test_rules_that_cannot_be_listed_are_left_out(tmp_path: Path) -> None:
    fake = tmp_path / "nft"
    host = Host(_with_programs_of(tmp_path), tmp_path)
    for text, why in (
        ("sleep 30", "nft did not answer within 2 s"),
        ("exit 1", "nft did not list its rules; that needs root"),
        ("echo table", "its rules cannot be read: not the beginning of a table: table"),
    ):
        fake.write_text(f"#!/bin/sh\n{text}\n")
        fake.chmod(0o755)
        with anyio.fail_after(20):
            state = await host.collect()
        assert (state.items, state.left_out) == ({}, (f"packet-filter: {why}",))


def _with_programs_of(folder: Path) -> RunCommand:
    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        command = ["sh", "-c", f"PATH={folder}:$PATH\n{script}"]
        done = await anyio.run_process(command, input=stdin, check=False)
        return done.returncode, done.stdout

    return run
