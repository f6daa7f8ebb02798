"""A process that lives to be killed: a conversation on a real journal, in a real shell."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from agent_setup import ByPosition, call, calls, says

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.settings import AgentSettings
from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.messages import Message
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.tools.executor import Executor
from hermes.tools.terminal import terminal
from risk_policy import RiskPolicy

SLOW = (
    "echo once >> log; touch started; for i in $(seq 200); do [ -e stop ] && exit; sleep 0.05; done"
)
SCRIPT = [
    calls(call("terminal", id="quick", command="echo before >> log")),
    calls(call("terminal", id="slow", command=SLOW)),
    says("it had been started, so I looked first"),
]


@asynccontextmanager
async def living(folder: Path, script: list[Message]) -> AsyncGenerator[AgentDependencies, None]:
    async def approver(action: Action, decision: Decision) -> Approval:
        return Approval(approved=True, by="test")

    variables = {"PATH": os.environ["PATH"]}
    async with (
        SqliteJournal.open(folder / "journal.db") as journal,
        LocalEnvironment(folder, variables) as place,
    ):
        bus = Bus(journal)
        yield AgentDependencies(
            model=ByPosition(script),
            executor=Executor({"terminal": terminal}, RiskPolicy(), approver, bus),
            environment=place,
            bus=bus,
            artifacts=FileArtifacts(folder / "artifacts"),
            settings=AgentSettings(),
        )


async def main(folder: Path) -> None:
    async with living(folder, SCRIPT) as dependencies:
        talk = await Conversation.begin(dependencies, run="victim", unattended=True)
        await talk.say("go")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
