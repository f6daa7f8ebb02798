"""Rules that hold for every command: an example in its help, JSON where it lists or shows."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import click
import pytest
from click.testing import CliRunner

from hermes.cli.lazy import LazyGroup
from hermes.cli.root_command import root
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.messages import Message
from hermes.memory.journal.sqlite_journal import SqliteJournal

RUN = "run-20260101-000000-abcdef"
CHANGES = {
    "hermes config set",
    "hermes config unset",
    "hermes config edit",
    "hermes config migrate",
    "hermes sessions resume",
    "hermes sessions rename",
    "hermes sessions export",
    "hermes sessions delete",
    "hermes sessions reindex",
    "hermes sessions embed",
    "hermes journal export",
    "hermes memory export",
    "hermes audit export",
    "hermes drill shell",
    "hermes copy shell",
    "hermes gateway run",
    "hermes acp",
    "hermes mcp serve",
    "hermes rl serve",
    "hermes model set",
    "hermes setup",
    "hermes completion",
    "hermes demo",
}
"""They change something, or print what is no listing: no --json is asked of them."""
ELSEWHERE = {"hermes chat", "hermes model test", "hermes journal salvage", "hermes store migrate"}
ASKED = ("show", "approve", "deny", "stop", "watch", "revoke")
ELSEWHERE |= {f"hermes approvals {verb}" for verb in ASKED}
ELSEWHERE |= {"hermes batch", "hermes trajectories export"}
ELSEWHERE |= {
    "hermes audit key",
    "hermes memory show",
    "hermes memory share",
    "hermes memory forget",
    "hermes memory import",
}
ELSEWHERE |= {f"hermes drill {verb}" for verb in ("run", "selftest", "bench", "score")}
ELSEWHERE |= {f"hermes skills {verb}" for verb in ("run", "diff", "rollback", "retire")}
ELSEWHERE |= {f"hermes skills {verb}" for verb in ("compile", "distill")}
ELSEWHERE |= {"hermes maintenance end", "hermes watch", "hermes up", "hermes incident watch"}
ELSEWHERE |= {f"hermes incident {verb}" for verb in ("show", "timeline", "report")}
ELSEWHERE |= {f"hermes incident {verb}" for verb in ("ack", "tell", "close", "reopen")}
ELSEWHERE |= {f"hermes skills {v}" for v in ("export", "import", "verify", "publish", "revoke")}
ELSEWHERE |= {f"hermes skills {verb}" for verb in ("search", "install", "update")}
ELSEWHERE |= {"hermes plugins show"}
ELSEWHERE |= {"hermes service logs", "hermes service uninstall", "hermes backup", "hermes restore"}
ELSEWHERE |= {"hermes people add", "hermes people remove", "hermes token revoke"}
ELSEWHERE |= {"hermes web logout", "hermes tools import"}
ELSEWHERE |= {
    f"hermes mcp {verb}" for verb in ("add", "login", "logout", "review", "test", "remove")
}
ELSEWHERE |= {"hermes pairing approve", "hermes pairing revoke"}
ELSEWHERE |= {f"hermes hooks {verb}" for verb in ("trust", "untrust", "test")}
ELSEWHERE |= {"hermes traces show", "hermes traces send"}
ELSEWHERE |= {"hermes changes show", "hermes changes revert"}
ELSEWHERE |= {f"hermes state {verb}" for verb in ("show", "diff", "delete")}
ELSEWHERE |= {"hermes drill from-incident", "hermes incident replay"}
ELSEWHERE |= {f"hermes cron {verb}" for verb in ("run", "remove", "apply")}
"""They need a server, damage, states, or somebody who asks, and have tests of their own."""
ARGUMENTS = {
    "hermes config get": ["model.default"],
    "hermes channels test": ["log"],
    "hermes sessions show": [RUN],
    "hermes sessions search": ["why"],
    "hermes sessions import": ["--jsonl", os.devnull],
    "hermes recall": ["why?"],
    "hermes tools show": ["read_file"],
    "hermes policy check": ["ls"],
    "hermes policy explain": ["ls"],
    "hermes policy show": ["destructive"],
    "hermes doctor": ["--offline"],
    "hermes copy run": ["true"],
    "hermes copy diff": ["true"],
    "hermes service install": ["--kind", "systemd", "--print"],
    "hermes gateway install": ["--kind", "systemd", "--print"],
    "hermes drill show": ["config-typo-after-edit"],
    "hermes incident open": ["the shop shows old prices"],
    "hermes maintenance add": ["web", "--for", "1h"],
    "hermes cron add": ["every day at 9", "look"],
    "hermes cron show": ["audit"],
    "hermes cron pause": ["audit"],
    "hermes cron resume": ["audit"],
    "hermes task add": ["--cron", "0 9 * * *", "look"],
    "hermes health forget": ["redis-server"],
    "hermes memory add": ["orders writes to db-7"],
    "hermes skills show": ["port-taken"],
    "hermes skills new": ["made-here", "--description", "Does it"],
    "hermes skills edit": ["port-taken"],
    "hermes skills history": ["port-taken"],
    "hermes skills promote": ["port-taken"],
}


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    if path:
        yield " ".join(("hermes", *path)), command
    if isinstance(command, LazyGroup):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


TREE = dict(commands(root))


def takes_json(command: click.Command) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("name", TREE)
def test_every_command_has_help_and_an_example(name: str) -> None:
    done = CliRunner().invoke(root, [*name.split()[1:], "--help"])
    assert done.exit_code == 0
    _, found, examples = done.output.partition("\nExamples:\n")
    assert found, f"{name} has no example"
    assert "hermes" in examples
    assert TREE[name].help


def test_whatever_lists_or_shows_takes_json() -> None:
    alone = {name: each for name, each in TREE.items() if not isinstance(each, click.Group)}
    assert {name for name, each in alone.items() if not takes_json(each)} <= CHANGES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def fill() -> None:
        async with SqliteJournal.open(tmp_path / "journal.db") as journal:
            await journal.append(
                RunStarted(run=RUN, origin="cli", task="why is the disk full?"),
                MessageAdded(run=RUN, message=Message(role="user", text="why?")),
            )

    anyio.run(fill)
    return tmp_path


@pytest.mark.parametrize(
    "name", [name for name in TREE if takes_json(TREE[name]) and name not in ELSEWHERE]
)
def test_json_is_json_and_nothing_else(name: str, home: Path) -> None:
    words = [*name.split()[1:], *ARGUMENTS.get(name, []), "--json"]
    env = {"HERMES_HOME": str(home), "NO_COLOR": "1"}
    done = CliRunner().invoke(root, words, env=env, standalone_mode=False)
    assert done.exception is None, done.output
    json.loads(done.stdout)
    assert done.stderr == ""
