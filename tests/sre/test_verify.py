"""What counts as evidence that it is over, and for how long one has to look."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from incident_host import FIX, QUICK, Host, events, run_commander
from msgspec import structs
from scripted_checks import Scripted, failed, of, passed

from hermes.core.bus import Bus
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangeBegan,
    ChangesUndone,
    IncidentDiagnosed,
    IncidentVerified,
)
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.assessment.symptom_timing import (
    MAX_MISS_PROBABILITY,
    SymptomTiming,
    highest_failure_share,
    parse_run_spans,
    read_alert_period_s,
)
from hermes.sre.baseline import Baseline, add_later_failures, take_baseline
from hermes.sre.checks import CheckResult, check_result_of
from hermes.sre.context import IncidentWork
from hermes.sre.probes.evaluation import ProbeState, ProbeVerdict
from hermes.sre.probes.probe import Probe, ProbeKind
from hermes.sre.settings import VerifySettings
from hermes.sre.verify import FixRehearsal, verify, watch_recovery

pytestmark = pytest.mark.anyio


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


async def test_a_proof_names_what_still_fails(scripted: Scripted) -> None:
    scripted.looks = [[failed("unit-web"), failed("http-80")], [passed("unit-web"), failed("x")]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        proof = await verify(work, await take_baseline(work), 1)
    assert not proof.ok
    assert "x: bad" in proof.why


@pytest.mark.command
async def test_a_playbook_whose_own_unit_still_fails_is_undone_though_another_check_turned_green(
    host: Host,
) -> None:
    host.watched = ("web", "shop")
    host.playbook("web", ("touch well-shop", "rm well-shop"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert host.ledger == ["web-1", "undo-web-1"]
    assert not host.well("shop")


@pytest.mark.command
async def test_a_check_that_the_restart_of_the_fixer_turns_green_keeps_no_change(
    scripted: Scripted,
) -> None:
    counter = failed("unit-web", proves=False)
    scripted.looks = [[counter], [counter], [passed("unit-web")]]
    scripted.playbook("web", ("touch one", "rm one"))
    ending = await run_commander(scripted)
    assert ending.outcome == "escalated"
    assert scripted.ledger == ["web-1", "undo-web-1"]
    assert events(scripted, IncidentVerified)[0].ok is False


@pytest.mark.command
async def test_a_fix_whose_symptom_no_check_saw_is_undone_and_handed_over(host: Host) -> None:
    host.watched = ("other",)
    (host.folder / "well-other").touch()
    host.playbook("web", ("touch one", "rm one"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert host.ledger == ["web-1", "undo-web-1"]
    assert "no check that observed the symptom" in events(host, ChangesUndone)[0].reason


def symptom(host: Host, name: str, command: str) -> None:
    file = host.folder / "skills" / name / "playbook.yaml"
    more = f"  - {{name: seen-{name}, command: '{command}', symptom: true, within: 0.1}}\n"
    file.write_text(file.read_text() + more)


@pytest.mark.command
async def test_a_symptom_check_of_a_playbook_that_failed_before_is_evidence(host: Host) -> None:
    host.watched = ()
    host.playbook("web", FIX)
    symptom(host, "web", "test -f well-web")
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])


@pytest.mark.command
async def test_a_playbook_whose_symptom_is_not_there_does_not_act(host: Host) -> None:
    host.playbook("web", FIX)
    symptom(host, "web", "true")
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("escalated", [])
    assert "web (web is put right): seen-web passes" in ending.reason


async def test_a_log_in_which_nobody_asked_since_shows_no_recovery(scripted: Scripted) -> None:
    scripted.looks = [[failed("answers-web")]] * 2 + [[passed("answers-web", proves=False)]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        proof = await verify(work, await take_baseline(work), 1)
    assert (proof.ok, proof.symptom_unobserved) == (False, True)


async def test_a_check_that_can_no_longer_be_asked_proves_nothing(scripted: Scripted) -> None:
    scripted.looks = [[passed("http-80")]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        eyes = await scripted.checks_for(case)
        baseline = Baseline(independent_checks=eyes, failing=frozenset({"http-80", "gone"}))
        proof = await verify(IncidentWork(context, case), baseline, 1)
    assert not proof.ok
    assert "gone: it could not be asked again" in proof.why


# -- how long


def test_a_crash_loop_that_one_look_saw_between_two_crashes_is_evidence_after_another() -> None:
    running = CheckResult(check="unit-web", ok=False, proves=False, counter=True)
    crashed = CheckResult(check="unit-web", ok=False)
    for looks in ([running, crashed], [crashed, running]):
        baseline = Baseline(independent_checks=no_checks)
        for look in looks:
            baseline = baseline.with_results([look])
        assert baseline.evidence == {"unit-web"}


async def no_checks() -> list[CheckResult]:
    return []


def test_a_symptom_seen_by_every_look_needs_no_longer_window() -> None:
    settings = VerifySettings(window=20.0, every=2.0)
    assert SymptomTiming(share=1.0, period_s=400.0).window_s(settings) == 20.0


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1, 0.05])
def test_the_rarer_a_symptom_the_longer_the_window(share: float) -> None:
    settings = VerifySettings(window=1.0, every=2.0, longest_window=1e9)
    looks = SymptomTiming(share=share).window_s(settings) / settings.every
    assert (1 - share) ** looks <= MAX_MISS_PROBABILITY < (1 - share) ** (looks - 1)


def test_the_window_covers_the_time_between_two_firings_and_has_a_bound() -> None:
    settings = VerifySettings(window=20.0, every=2.0, longest_window=300.0)
    assert SymptomTiming(share=0.0, period_s=120.0).window_s(settings) == 150.0
    assert SymptomTiming(share=0.0, period_s=3600.0).window_s(settings) == 300.0


def test_the_share_is_that_of_the_check_that_showed_it_most_often() -> None:
    assert highest_failure_share([(1, 4), (2, 4)]) == 0.5
    assert highest_failure_share([]) == 0.0


def test_a_restart_hides_trouble_for_as_long_as_it_took_to_show_after_a_start() -> None:
    text = """\
Nov 16 00:00:10 web1 systemd: Started web.service.
Nov 16 00:00:11 web1 web: listening
Nov 16 00:00:41 web1 web: ERROR too many open files
Nov 16 00:00:42 web1 systemd: Main process exited, code=exited
Nov 16 00:00:43 web1 systemd: Started web.service.
Nov 16 00:01:03 web1 web: GET /items 500
Nov 16 00:02:00 web1 systemd[1]: web.service: Started The web.
Nov 16 00:02:10 web1 systemd[1]: web.service: Main process exited, code=killed, signal=15
-- no more
"""
    assert parse_run_spans(text) == [(31.0, 32.0), (20.0, None), (None, None)]
    settings = VerifySettings(window=20.0)
    assert SymptomTiming(share=1.0, onset_s=31.0).window_s(settings) == pytest.approx(38.75)


async def test_the_history_of_an_alert_tells_how_often_it_returns() -> None:
    journal, now = InMemoryJournal(), datetime.now(UTC)

    async def heard(minutes: float, *, resolved: bool = False, fingerprint: str = "web") -> None:
        at = now - timedelta(minutes=minutes)
        alert = AlertRaised(
            run="watch", at=at, fingerprint=fingerprint, title="", resolved=resolved
        )
        await Bus(journal).publish(alert)

    await heard(20)
    await heard(19)  # a monitor repeats itself
    await heard(18, resolved=True)
    await heard(14, fingerprint="shop")
    await heard(12)
    await heard(11, resolved=True)
    await heard(9)
    assert await read_alert_period_s(journal, "web") == pytest.approx(8 * 60)
    assert await read_alert_period_s(journal, "shop") == 0.0
    assert await read_alert_period_s(journal, "") == 0.0


@pytest.mark.command
async def test_an_intermittent_symptom_between_two_looks_is_no_recovery(scripted: Scripted) -> None:
    """One request in five fails: a window of a few looks would pass by chance."""
    scripted.settings = structs.replace(
        QUICK, verify=VerifySettings(window=0.02, every=0.01, patience=0.05, longest_window=5.0)
    )
    good, bad = [passed("http-80")], [failed("http-80")]
    scripted.looks = [bad, good, good, good, good, good] * 9
    ending = await run_commander(scripted)
    assert ending.outcome == "escalated"


@pytest.mark.command
async def test_recovery_is_told_with_the_checks_that_show_it(scripted: Scripted) -> None:
    scripted.looks = [[failed("http-80")], [passed("http-80")]]
    ending = await run_commander(scripted)
    assert ending.outcome == "recovered"
    (said,) = events(scripted, IncidentDiagnosed)
    assert said.evidence
    assert "http-80" in ending.reason


@pytest.mark.parametrize(("rehearsal_s", "ok"), [(0.0, False), (60.0, True)])
async def test_a_fix_gets_the_time_that_it_took_on_a_copy(
    scripted: Scripted, rehearsal_s: float, ok: bool
) -> None:
    slow = VerifySettings(window=0.0, every=0.01, patience=0.0, longest_window=0.0)
    scripted.settings = structs.replace(QUICK, verify=slow)
    scripted.looks = [[failed("http-80")]] * 20 + [[passed("http-80")]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await take_baseline(work)
        verified = await verify(work, baseline, 1, rehearsal=FixRehearsal(seconds=rehearsal_s))
    assert verified.ok is ok


async def test_where_no_check_observes_the_symptom_nobody_says_that_it_is_over(
    scripted: Scripted,
) -> None:
    scripted.looks = [[passed("unit-other")]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        watched = await watch_recovery(work, await take_baseline(work))
    assert (watched.recovered, watched.evidence) == (False, ())
    assert "no check observes" in watched.why


async def test_an_alert_that_fires_again_while_it_is_watched_is_no_recovery(
    scripted: Scripted,
) -> None:
    scripted.looks = [[failed("http-80")], [passed("http-80")]]
    case = structs.replace(await scripted.open_incident(), fingerprint="web")
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await take_baseline(work)

        async def see() -> Sequence[CheckResult]:
            await context.bus.publish(AlertRaised(run="watch", fingerprint="web", title="again"))
            return [passed("http-80")]

        watched = await watch_recovery(work, replace(baseline, independent_checks=see))
    assert not watched.recovered
    assert "fired again" in watched.why


async def test_a_symptom_that_returns_after_hours_is_handed_over(scripted: Scripted) -> None:
    scripted.looks = [[passed("http-web")]]
    now = datetime.now(UTC)
    for hours, resolved in ((5, False), (4, True), (1, False), (0.5, True)):
        at = now - timedelta(hours=hours)
        alert = AlertRaised(run="watch", at=at, fingerprint="w", title="", resolved=resolved)
        await Bus(scripted.journal).publish(alert)
    case = structs.replace(await scripted.open_incident(), fingerprint="w")
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        watched = await watch_recovery(work, await take_baseline(work))
    assert not watched.recovered
    assert "longer than it is watched" in watched.why


# -- which probes depend on what a fixer does


@pytest.mark.parametrize(
    ("kind", "text", "state", "proves"),
    [
        ("unit", "5 restarts; web.service is active (running); restarted", "failing", False),
        ("unit", "5 restarts; web.service is failed (failed)", "failing", True),
        ("answers", "0 paths of 0 recent answers fail", "fine", False),
        ("answers", "0 paths of 7 recent answers fail", "fine", True),
        ("certificate", "0 days are left", "failing", False),
        ("http", "the status is 500", "failing", True),
    ],
)
def test_a_probe_that_reads_what_a_fixer_writes_or_resets_is_no_evidence(
    kind: ProbeKind, text: str, state: ProbeState, proves: bool
) -> None:
    probe = Probe(name="x", kind=kind, service="web")
    seen = check_result_of(probe, ProbeVerdict(probe="x", state=state, detail=text))
    assert (seen.proves, seen.service) == (proves, "web")


DOWN, CACHE = of("web", failed("http-80")), of("cache", failed("port-6379"))
CACHE_FINE = of("cache", passed("port-6379"))


def page(detail: str) -> CheckResult:
    return structs.replace(DOWN, detail=detail)


async def test_what_other_services_failed_with_before_the_change_is_no_fault_of_the_fix(
    scripted: Scripted,
) -> None:
    scripted.looks = [[DOWN, CACHE_FINE], [DOWN, CACHE], [of("web", passed("http-80")), CACHE]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await add_later_failures(work, await take_baseline(work))
        verified = await verify(work, baseline, 1)
    assert (verified.ok, verified.why) == (True, "")


async def test_what_begins_to_fail_with_the_change_counts_against_the_fix(
    scripted: Scripted,
) -> None:
    scripted.looks = [[DOWN, CACHE_FINE]] * 2 + [[of("web", passed("http-80")), CACHE]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await add_later_failures(work, await take_baseline(work))
        verified = await verify(work, baseline, 1, component="web")
    assert (verified.ok, verified.helped) == (False, False)


async def test_what_the_same_service_failed_with_later_has_to_pass_as_well(
    scripted: Scripted,
) -> None:
    tls, fine = of("web", failed("tls-443")), of("web", passed("http-80"))
    scripted.looks = [[DOWN], [DOWN, tls], [fine, tls]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await add_later_failures(work, await take_baseline(work))
        verified = await verify(work, baseline, 1)
    assert not verified.ok
    assert "tls-443" in verified.why


@pytest.mark.parametrize(("explained", "helped"), [("port-6379", True), ("http-80", False)])
async def test_a_revert_stays_if_the_checks_pass_that_a_copy_has_explained(
    scripted: Scripted, explained: str, helped: bool
) -> None:
    scripted.looks = [[DOWN, CACHE], [DOWN, CACHE_FINE]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        rehearsal = FixRehearsal(explained=(explained,))
        baseline = await take_baseline(work)
        verified = await verify(work, baseline, 1, component="web", rehearsal=rehearsal)
    assert (verified.ok, verified.helped) == (False, helped)


@pytest.mark.parametrize("full", [True, False])
async def test_a_revert_that_helped_stays_while_another_problem_lasts(
    scripted: Scripted, full: bool
) -> None:
    """The service answers again, with an error: a full disk that was there before explains it."""
    disk = failed("disk-cache") if full else passed("disk-cache")
    scripted.looks = [
        [DOWN, of("web", failed("port-80")), disk],
        [DOWN, of("web", passed("port-80")), disk],
    ]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        rehearsal = FixRehearsal(explained=("http-80", "port-80"))
        baseline = await take_baseline(work)
        verified = await verify(work, baseline, 1, component="web", rehearsal=rehearsal)
    assert (verified.ok, verified.helped) == (False, full)


@pytest.mark.parametrize(
    ("before", "after", "helped"),
    [
        ("nothing answers at :80", "status 500", True),
        ("status 502", "status 500", False),
        ("nothing answers at :80", "no answer within 5 s", False),
    ],
)
async def test_a_revert_that_brought_a_service_back_stays_when_it_answers_with_an_error(
    scripted: Scripted, before: str, after: str, helped: bool
) -> None:
    scripted.looks = [
        [page(before), of("web", failed("port-80"))],
        [page(after), of("web", passed("port-80"))],
    ]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        rehearsal = FixRehearsal(explained=("http-80", "port-80"))
        baseline = await take_baseline(work)
        verified = await verify(work, baseline, 1, component="web", rehearsal=rehearsal)
    assert (verified.ok, verified.helped) == (False, helped)


@pytest.mark.parametrize(
    ("port", "past_answers", "helped"),
    [
        (passed("port-80"), True, True),
        (passed("port-80"), False, False),
        (structs.replace(failed("port-80"), detail="nothing answers at :80"), True, False),
    ],
)
async def test_a_log_of_answers_that_turns_bad_when_a_service_answers_again_undoes_no_revert(
    scripted: Scripted, port: CheckResult, past_answers: bool, helped: bool
) -> None:
    silent = structs.replace(failed("port-80"), detail="nothing answers at :80")
    log = structs.replace(of("web", passed("answers-web")), past_answers=past_answers)
    bad_log = structs.replace(log, ok=False, detail="the last 30 answers for /cart were bad: 500")
    scripted.looks = [
        [page("nothing answers at :80"), of("web", silent), log],
        [page("status 500"), of("web", port), bad_log],
    ]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        rehearsal = FixRehearsal(explained=("http-80", "port-80"))
        baseline = await take_baseline(work)
        verified = await verify(work, baseline, 1, component="web", rehearsal=rehearsal)
    assert (verified.ok, verified.helped) == (False, helped)


@pytest.mark.parametrize(
    ("cache", "before", "helped"),
    [(CACHE, "port-80", True), (CACHE, "http-80", False), (CACHE_FINE, "port-80", False)],
)
async def test_a_service_that_answers_again_is_not_stopped_because_of_another_outage(
    scripted: Scripted, cache: CheckResult, before: str, helped: bool
) -> None:
    """It runs again and fails because of what it needs, which began to fail before its start."""
    silent = of("web", failed("port-80")) if before == "port-80" else of("web", passed("port-80"))
    first = [DOWN, silent]
    scripted.looks = [
        [*first, CACHE_FINE],
        [*first, cache],
        [DOWN, of("web", passed("port-80")), cache],
    ]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await add_later_failures(work, await take_baseline(work))
        verified = await verify(work, baseline, 1, component="web")
    assert (verified.ok, verified.helped) == (False, helped)


async def test_what_failed_before_an_escalation_does_not_undo_the_fix_of_a_new_failure(
    scripted: Scripted,
) -> None:
    port = of("web", failed("port-80"))
    scripted.looks = [[DOWN, port], [DOWN, of("web", passed("port-80"))]]
    case = await scripted.open_incident()
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        baseline = await take_baseline(work)
        plain = await verify(work, baseline, 1, component="web")
        older = replace(baseline, failed_before=frozenset({"http-80"}))
        verified = await verify(work, older, 1, component="web")
    assert (plain.helped, verified.ok, verified.helped) == (False, False, True)


@pytest.mark.parametrize(("resolved", "known"), [(True, True), (False, False)])
async def test_the_problem_is_over_when_its_alert_was_resolved_and_not_when_checks_confirm_it(
    scripted: Scripted, resolved: bool, known: bool
) -> None:
    scripted.looks = [[DOWN], [of("web", passed("http-80"))]]
    case = structs.replace(await scripted.open_incident(), fingerprint="web")
    joined = AlertsJoined(run=case.run, incident=case.incident, count=1, fingerprints=("web",))
    change = ChangeBegan(run=case.run, incident=case.incident, call_id="c", command="x")
    alert = AlertRaised(run="watch", fingerprint="web", title="web", resolved=resolved)
    await Bus(scripted.journal).publish(joined, change, alert)
    async with scripted.context() as context:
        work = IncidentWork(context, case)
        assert (await verify(work, await take_baseline(work), 1)).ok
    (verified,) = events(scripted, IncidentVerified)
    assert (verified.fine_since == alert.at) is known
    assert (await work.read()).over_at == (alert.at if known else verified.at)
