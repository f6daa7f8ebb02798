"""Checks of the policy for commands that a model composed do not apply to scripts of this program,
and nobody but this program can say that a text is one."""

import re
from pathlib import Path

import pytest
from probe_house import this_host

import hermes
from hermes.core.actions import Action, Decision
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import compile_rule_set, load_set
from hermes.policy.rules.rule import PolicyVerdict
from hermes.policy.settings import PolicySettings
from hermes.skills.supervisors.units import listing_scripts
from hermes.sre.policies import BundledTextPolicy
from hermes.sre.probes.admission import admit_probes
from hermes.sre.probes.probe import Probe, shell_command_of

pytestmark = pytest.mark.anyio
DISGUISED = "journalctl -u web -n 50 | xxd"
MAKERS = {"sre/policies.py", "sre/probes/admission.py"}


class Remembering(DocumentPolicy):
    """The policy of the set `careful`, and what it was asked."""

    asked: list[Action]

    def decide(self, action: Action) -> PolicyVerdict:
        self.asked.append(action)
        return super().decide(action)


def careful() -> Remembering:
    policy = Remembering(
        compile_rule_set(load_set("careful").documents, PolicySettings(), "/root"),
        ActionReader(analyse_command, lookup=resolve_symlinks),
        context_of=lambda _: ActionContext(cwd="/", home="/root"),
    )
    policy.asked = []
    return policy


def command_action(command: str) -> Action:
    return Action(
        call=ToolCall("c", "terminal", {"command": command}),
        risk=Risk.CHANGE,
        run="incident-1#playbook",
        origin="incident",
        environment="local",
        target="",
        isolated=False,
    )


async def admitted_actions(tmp_path: Path, probe: Probe) -> tuple[list[Action], list[Decision]]:
    policy = careful()
    async with this_host(tmp_path) as here:
        await admit_probes([probe], policy, here)
    asked = list(policy.asked)
    return asked, [policy.decide(each) for each in asked]


async def test_a_built_in_probe_is_not_judged_like_the_text_of_a_model(tmp_path: Path) -> None:
    probe = Probe(name="log-web", kind="log", what="journal:web.service", pattern="error")
    asked, decisions = await admitted_actions(tmp_path, probe)
    assert {each.call.arguments["command"] for each in asked} == {shell_command_of(probe)}
    assert all(each.reviewed for each in asked)
    assert all("secret-read" not in each.effects for each in decisions)


async def test_a_declared_command_is_judged_like_the_text_of_a_model(tmp_path: Path) -> None:
    probe = Probe(name="web", kind="command", what=DISGUISED)
    asked, decisions = await admitted_actions(tmp_path, probe)
    assert not any(each.reviewed for each in asked)
    assert decisions
    assert all(each.verdict == "ask" for each in decisions)


async def test_a_model_cannot_call_its_text_a_script_of_this_program(tmp_path: Path) -> None:
    probe = Probe(name="web", kind="command", what=DISGUISED)
    asked, _ = await admitted_actions(tmp_path, probe)
    assert careful().decide(asked[0]).verdict == "ask"
    assert BundledTextPolicy(careful()).decide(asked[0]).verdict == "allow"


UNDO = 'while read -r f; do chown -h root "$f"; done < /var/tmp/names'
LISTING = listing_scripts()["supervisord"]


def test_an_undo_of_files_known_at_run_time_does_not_stop_later_scripts_of_this_program() -> None:
    policy = careful()
    policy.record_start(command_action(UNDO))
    assert BundledTextPolicy(policy).decide(command_action(LISTING)).verdict == "allow"
    assert policy.decide(command_action(LISTING)).verdict == "ask", "the text of a model"


def test_only_the_responder_and_the_admission_of_probes_say_that_a_text_is_ours() -> None:
    source = Path(hermes.__file__).parent
    found = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"\breviewed=(?!action\.reviewed|effects\.reviewed)", file.read_text("utf-8"))
    }
    assert found == MAKERS
