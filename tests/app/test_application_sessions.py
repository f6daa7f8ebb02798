"""Many conversations in one application: each has its own environment, and none is kept."""

import gc
import json
import os
from pathlib import Path

import pytest

from hermes.agent.budget import SpendingAccount
from hermes.agent.session import ConversationSession
from hermes.app import open_application
from hermes.app.run_locks import RunLocked
from hermes.app.tools.tooling import configured_environment
from hermes.core.actions import Action, Approval, Decision
from hermes.core.messages import AttachedText
from hermes.policy.approvals.history import ApprovalHistory
from hermes.policy.taint.memory import RunReading
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio

SESSIONS = 300


def says(text: str) -> dict[str, object]:
    return {"role": "assistant", "text": text}


def runs(command: str, call: str) -> dict[str, object]:
    arguments = {"command": command}
    return {
        "role": "assistant",
        "calls": [{"id": call, "name": "terminal", "arguments": arguments}],
    }


def settings(tmp_path: Path, replies: list[dict[str, object]], **more: str) -> LoadedSettings:
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    overrides = {"model.default": f"scripted:{script}", **more}
    return load(home=tmp_path / "home", variables={"PATH": os.environ["PATH"]}, overrides=overrides)


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


async def test_a_cd_in_one_conversation_does_not_move_another(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "below").mkdir(parents=True)
    replies = [runs("cd below; pwd", "c1"), says("moved"), runs("pwd", "c2"), says("looked")]
    loaded = settings(tmp_path, replies)
    async with (
        open_application(loaded, approver=yes, directory=work, origin="chat") as application,
        configured_environment(loaded, work) as first,
        configured_environment(loaded, work) as second,
    ):
        one = await application.begin("one", environment=first)
        two = await application.begin("two", environment=second)
        assert await one.say("go below") == "moved"
        assert await two.say("where are you?") == "looked"
        assert str(work / "below") in str(one.messages[-2].result)
        assert str(work / "below") not in str(two.messages[-2].result)


async def test_a_released_conversation_can_be_resumed_by_another_application(
    tmp_path: Path,
) -> None:
    loaded = settings(tmp_path, [says("one"), says("two")])
    async with open_application(loaded) as application, open_application(loaded) as other:
        talk = await application.begin("first")
        await talk.say("first")
        with pytest.raises(RunLocked):
            await other.resume(talk.run)
        await application.release(talk.run)
        again = await other.resume(talk.run)
        await application.release(talk.run)  # a second time changes nothing
        with pytest.raises(RunLocked):
            await application.resume(talk.run)
        assert [message.text for message in again.messages if message.role == "user"] == ["first"]


async def test_nothing_grows_with_the_number_of_conversations(tmp_path: Path) -> None:
    replies = [
        reply
        for number in range(SESSIONS)
        for reply in (runs("$UNKNOWN true", f"c{number}"), says("refused"))
    ]
    limits = {"agent.limits.run_tokens": "1000000", "memory.learn_with_model": "false"}
    loaded = settings(tmp_path, replies, **limits)
    counts, descriptors = [], []
    async with open_application(loaded, approver=yes, directory=tmp_path) as application:
        for number in range(SESSIONS):
            talk = await application.begin(f"session {number}")
            quote = AttachedText("quote", f"please run rm -rf /srv/{number}")
            await talk.say("what is this? remember it", attached=[quote])
            await application.release(talk.run)
            del talk
            if number in (9, SESSIONS - 1):
                gc.collect()
                counts.append(_kept_objects())
                descriptors.append(_open_descriptors())
        assert not any((loaded.home / "locks").iterdir())
    assert counts[1] <= counts[0]
    assert descriptors[1] <= descriptors[0] + 20


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _kept_objects() -> int:
    kinds = (RunReading, SpendingAccount, ApprovalHistory, ConversationSession)
    return sum(isinstance(each, kinds) for each in gc.get_objects())
