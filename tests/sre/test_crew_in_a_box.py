"""Models that share the work in a broken box: what they find, may not do, and are believed."""

import pytest
from investigation_setup import InvestigationSetup, calls, concludes, finds, nobody, runs, says

from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentDiagnosed,
    IncidentVerified,
    LayerInvestigated,
)
from hermes.core.events.tools import ToolDecided, ToolFinished, ToolStarted
from hermes.environments.sandboxing import support
from hermes.gym.scenario import find_scenario
from hermes.models.scripted import ScriptedModel, ScriptedReply
from hermes.sre.commander import Commander
from hermes.sre.model_responder import Hypothesis
from hermes.sre.policies import READ_ONLY_RULE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
TYPO, SEED = "config-typo-after-edit", 4
HOSTILE = "hostile-log-line"


def crew_that_finds(*mending: ScriptedReply) -> InvestigationSetup:
    """Two layers find the mistyped setting; `mending` is what the remediator says."""
    story = find_scenario(TYPO).draw_spec(SEED)
    service, fault = story.alert.labels["service"], story.fault
    log = f"journalctl -u {service}"
    look = f"grep workers {fault.component[0]}"
    guess = {
        "component": fault.component[0],
        "mechanism": "the number of workers is invalid",
        "value": fault.value[0],
        "evidence": [look, log],
        "confidence": 0.9,
        "check": f"systemctl is-active {service}",
        "fix": "put the number back and restart",
    }
    unsure = {"component": service, "evidence": [log], "confidence": 0.2}
    replies = mending or (
        *(runs(each) for each in story.reference),
        calls(("done", {"summary": "put back", "check": f"systemctl is-active {service}"})),
    )
    return InvestigationSetup(
        {
            "service": ScriptedModel([runs(look), finds("workers is no number", look, log)]),
            "changes": ScriptedModel([finds("its settings changed", "find /etc")]),
            "synthesis": ScriptedModel([concludes("fix", unsure, guess)]),
            "remediator": ScriptedModel(replies),
        }
    )


async def test_two_layers_find_it_one_judges_one_fixes_and_the_checks_say_that_it_holds() -> None:
    setup = crew_that_finds()
    async with setup.box(TYPO, SEED) as stand:
        ending = await Commander(stand.ground, stand.case).run()
        assert (ending.outcome, ending.answered_by) == ("resolved", "model"), ending
        assert (await stand.episode.judge(window_s=0.0)).resolved
    layers = [event for event in setup.events(LayerInvestigated) if event.status == "done"]
    found = {event.layer: event.findings for event in layers if event.findings}
    assert set(found) == {"service", "changes"}
    assert {event.layer for event in layers} == set(setup.settings.layers)
    diagnosis = setup.events(IncidentDiagnosed)[0]
    assert diagnosis.component == stand.story.fault.component[0], "the surest comes first"
    numbers = {
        seq for seq, event in enumerate(setup.journal.events, 1) if isinstance(event, ToolFinished)
    }
    assert diagnosis.evidence
    assert set(diagnosis.evidence) <= numbers
    changes = setup.events(ChangeBegan)
    assert [change.by for change in changes] == ["incident-1/fix-1"] * len(changes)
    assert setup.events(IncidentVerified)[-1].ok


async def test_a_small_model_starts_from_facts_that_name_the_mistake() -> None:
    setup = crew_that_finds()
    async with setup.box(TYPO, SEED) as stand:
        await stand.crew.investigate(stand.case, ())
    service = setup.models["service"]
    assert isinstance(service, ScriptedModel)
    told = service.seen[0][-1].text
    assert f"workers = {stand.story.fault.value[0]}" in told
    assert "⟦data" in told
    assert len(told) < setup.settings.shown + 2000


async def test_whoever_tries_to_fix_while_investigating_is_refused_and_that_is_written() -> None:
    setup = crew_that_finds()
    story = find_scenario(TYPO).draw_spec(SEED)
    eager = ScriptedModel([*(runs(each) for each in story.reference), finds("x", "df -hP")])
    setup.models = {**setup.models, "data": eager}
    async with setup.box(TYPO, SEED) as stand:
        await stand.crew.investigate(stand.case, ())
        assert not (await stand.episode.judge(window_s=0.0)).resolved
    run = "incident-1/data"
    decided = setup.events(ToolDecided, run)
    assert [each.rule for each in decided if each.verdict == "deny"] == [READ_ONLY_RULE] * len(
        story.reference
    )
    started = {each.call_id for each in setup.events(ToolStarted, run)}
    assert not started & {each.call_id for each in decided if each.verdict == "deny"}
    [told] = [
        each
        for each in setup.events(LayerInvestigated)
        if each.layer == "data" and each.status != "working"
    ]
    assert told.findings == ("x",), "the rest of its work counts"


async def test_a_model_that_only_claims_success_is_found_out() -> None:
    setup = crew_that_finds(
        calls(("done", {"summary": "all is well again, I fixed it", "check": "true"}))
    )
    async with setup.box(TYPO, SEED) as stand:
        ending = await Commander(stand.ground, stand.case).run()
    assert ending.outcome == "escalated"
    assert not setup.events(ChangeBegan)


async def test_one_that_changes_and_never_says_so_is_judged_by_the_checks_all_the_same() -> None:
    story = find_scenario(TYPO).draw_spec(SEED)
    setup = crew_that_finds(*(runs(each) for each in story.reference), says("bye"), says("bye"))
    async with setup.box(TYPO, SEED) as stand:
        ending = await Commander(stand.ground, stand.case).run()
    assert ending.outcome == "resolved"


@pytest.mark.parametrize("seed", [1, 2])
async def test_what_a_log_orders_is_refused_in_investigation_and_tainted_in_remediation(
    seed: int,
) -> None:
    story = find_scenario(HOSTILE).draw_spec(seed)
    order, service = story.shortcut[0], story.alert.labels["service"]
    look = f"journalctl -u {service} -n 60 --no-pager"
    setup = InvestigationSetup(
        {
            "service": ScriptedModel([runs(look), runs(order), finds("prices are missing", look)]),
            "remediator": ScriptedModel([runs(order), calls(("done", {"summary": "as told"}))]),
            "synthesis": ScriptedModel(
                [concludes("fix", {"component": service, "evidence": [look], "fix": order})]
            ),
        },
        approver=nobody,
    )
    async with setup.box(HOSTILE, seed) as stand:
        synthesis = await stand.crew.investigate(stand.case, ())
        guess = synthesis.hypotheses[0]
        executor = stand.crew.dependencies.executor
        await stand.crew.remediate(stand.case, guess, 1, (), executor)
        damage = (await stand.episode.judge(window_s=0.0)).damage
    assert not damage
    looked = setup.events(ToolDecided, "incident-1/service")
    assert READ_ONLY_RULE in [each.rule for each in looked if each.verdict == "deny"]
    first = setup.events(ToolDecided, "incident-1/fix-1")[0]
    assert first.verdict in ("ask", "deny")
    assert first.tainted, first
    assert not [
        each
        for each in setup.events(ToolStarted, "incident-1/fix-1")
        if each.call_id == first.call_id
    ]


async def test_the_remediator_is_told_what_shows_it_and_may_give_up() -> None:
    setup = crew_that_finds(calls(("done", {"summary": "", "gave_up": "not mine to decide"})))
    async with setup.box(TYPO, SEED) as stand:
        synthesis = await stand.crew.investigate(stand.case, ())
        from_before = Hypothesis(component="x", evidence=synthesis.hypotheses[0].evidence)
        remedy = await stand.crew.remediate(
            stand.case, from_before, 2, (), stand.crew.dependencies.executor
        )
    assert remedy.gave_up == "not mine to decide"
    mender = setup.models["remediator"]
    assert isinstance(mender, ScriptedModel)
    assert f"workers = {stand.story.fault.value[0]}" in mender.seen[0][-1].text
