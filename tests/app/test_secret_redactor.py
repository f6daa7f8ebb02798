"""Nothing secret in the journal, before the model or in an artifact: a whole house, real files."""

import json
import os
from pathlib import Path

import pytest

from hermes.app import open_application
from hermes.app.journal.audit_verification import proof_of_home, verify_journal
from hermes.app.secret_redactor import SecretRedactor, own_secret_values
from hermes.core.actions import Action, Approval, Decision
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio

PASTED = "ghp_" + "aB3dE6gH9k" * 4
KEPT = "correct-horse-battery"


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


def house_of(tmp_path: Path, *replies: dict[str, object]) -> LoadedSettings:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    env = home / ".env"
    env.write_text(f"SHOP_TOKEN={KEPT}\nTERMINAL_ENV=local\nLLM_PROVIDER=scripted\n")
    env.chmod(0o600)
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return load(
        home=home,
        variables={"PATH": os.environ["PATH"]},
        overrides={"model.default": f"scripted:{script}"},
    )


def everything_in(home: Path) -> bytes:
    files = [file for file in home.rglob("*") if file.is_file() and file.name != ".env"]
    return b"".join(file.read_bytes() for file in files)


async def test_a_pasted_key_reaches_neither_journal_nor_model_and_the_person_is_told(
    tmp_path: Path,
) -> None:
    loaded = house_of(tmp_path, {"role": "assistant", "text": "noted"})
    async with open_application(loaded, directory=tmp_path) as house:
        conversation = await house.begin(f"use {PASTED}")
        await conversation.say(f"use {PASTED} and {KEPT}")
        seen = str(conversation.messages)
        assert "«redacted:github-token»" in seen
        assert "«redacted:SHOP_TOKEN»" in seen
        assert PASTED not in seen
        assert any("terminal.pass_variables" in note for note in conversation.notes)
        events = [str(one.event) async for one in house.journal.read()]
    assert not any(PASTED in event or KEPT in event for event in events)


async def test_the_same_sentence_twice_is_no_secret(tmp_path: Path) -> None:
    reply: dict[str, object] = {"role": "assistant", "text": "noted"}
    async with open_application(house_of(tmp_path, reply, reply), directory=tmp_path) as house:
        conversation = await house.begin()
        for _ in range(2):
            await conversation.say(" ".join(["how is nginx", "doing today?"]))
        assert not [note for note in conversation.notes if "secret" in note]


@pytest.mark.command
async def test_what_a_command_prints_and_what_a_call_holds_is_cleaned_everywhere(
    tmp_path: Path,
) -> None:
    command = f"for i in $(seq 2000); do echo {PASTED}; done"
    call = {"id": "c1", "name": "terminal", "arguments": {"command": command}}
    loaded = house_of(
        tmp_path, {"role": "assistant", "calls": [call]}, {"role": "assistant", "text": "done"}
    )
    async with open_application(loaded, approver=yes, directory=tmp_path) as house:
        conversation = await house.begin()
        await conversation.say("print it")
        assert PASTED not in str(conversation.messages)
        result = conversation.messages[-2].result
        assert result is not None
        assert result.artifact, "long enough to be kept as a file"
        run = conversation.run
        again = await house.agent_dependencies.artifacts.load(result.artifact)
        assert again.count("«redacted:github-token»") == 2000, "the command ran as it was meant"
        events = [str(one.event) async for one in house.journal.read()]
    assert not any(PASTED in event for event in events)
    assert PASTED.encode() not in everything_in(loaded.home)
    async with open_application(loaded, directory=tmp_path) as house:
        conversation = await house.resume(run)
        assert "«redacted:github-token»" in str(conversation.messages), "and it can be resumed"
    proof = proof_of_home(loaded.home, loaded.home / "audit.head")
    assert verify_journal(loaded.journal, proof).status == "verified"


def test_plain_settings_in_our_env_file_are_no_secrets(tmp_path: Path) -> None:
    loaded = house_of(tmp_path)
    assert set(own_secret_values(loaded)) == {"SHOP_TOKEN"}
    assert SecretRedactor(loaded)("a local scripted run") == "a local scripted run"
    assert SecretRedactor(loaded)(f"a {KEPT} run") == "a «redacted:SHOP_TOKEN» run"
