"""What the pages show, as plain values, of a home with some months of work."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from seeded_home import NIGHTLY_TASK, history, opened, seed_files

from hermes.app.web.views.audit import JournalAudit
from hermes.app.web.views.drills import JournalDrills
from hermes.app.web.views.facts import JournalFacts
from hermes.app.web.views.jobs import JournalJobs
from hermes.app.web.views.services import HealthHistory, JournalServices
from hermes.app.web.views.settings import HomeSettings
from hermes.app.web.views.skills import HomeSkills
from hermes.app.web.views.trends import JournalTrends
from hermes.core.errors import HermesError, ScheduleError
from hermes.core.events.incidents import IncidentOpened, IncidentRecovered
from hermes.core.events.operations import HealthChecked
from hermes.core.events.people import PersonAdded
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import ToolCall
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio
Home = tuple[LoadedSettings, JournalStore]
SECRET = "sk-abcdef0123456789abcdef"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    seed_files(tmp_path / "home")
    (tmp_path / "home" / ".env").write_text(f"OPENROUTER_API_KEY={SECRET}\n")
    loaded = load(home=tmp_path / "home", variables={})
    async with open_journal(loaded.store) as journal:
        await journal.append(*history())
        yield loaded, journal


def facts_of(home: Home) -> JournalFacts:
    return JournalFacts(*home)


def audit_of(home: Home) -> JournalAudit:
    return JournalAudit(*home)


async def test_services_in_trouble_come_first_with_their_incident_and_maintenance(
    home: Home,
) -> None:
    found = await JournalServices(*home).services()
    rows = {row["name"]: row for row in found["services"]}  # type: ignore[attr-defined]
    assert next(iter(rows)) == "shop"
    shop = rows["shop"]
    assert (shop["state"], shop["open_incidents"]) == ("incident", 1)
    assert [each["state"] for each in shop["checks"]] == ["failing"]
    assert shop["last_incident"]["incident"] == "incident-open-1"
    assert (shop["needs"], shop["needed_by"]) == (["postgres", "redis"], ["nginx"])
    assert (rows["this host"]["state"], rows["this host"]["more_fine"]) == ("fine", 2)
    assert rows["nginx"]["state"] == "fine" and len(rows["nginx"]["checks"]) == 2
    assert [each["target"] for each in rows["redis"]["maintenance"]] == ["redis"]
    assert rows["orders"]["state"] == "unchecked"
    sources = {(each["service"], each["needs"]): each["source"] for each in found["links"]}  # type: ignore[attr-defined]
    assert sources["orders", "postgres"] == "fact-000000000002"
    assert found["round"]["failing"] == 1  # type: ignore[index]


def test_a_state_holds_since_the_round_in_which_it_changed() -> None:
    health, at = HealthHistory(), datetime(2026, 1, 1, tzinfo=UTC)
    assert health.state("a") == ("unchecked", None)
    for minute, failing in enumerate([(), ("a",), ("a",), ()]):
        health.apply(
            HealthChecked(
                run="w", at=at + timedelta(minutes=minute), ok=not failing, failing=failing
            )
        )
    assert health.state("a") == ("fine", at + timedelta(minutes=3))
    assert health.state("never-failed") == ("fine", at)


async def test_a_service_is_fine_at_most_since_its_last_incident(home: Home) -> None:
    loaded, journal = home
    over = datetime.now(UTC) + timedelta(minutes=5)
    outage = IncidentOpened(
        run="incident-9",
        incident="incident-9",
        title="nginx is down",
        severity="P1",
        service="nginx",
    )
    ended = IncidentRecovered(run="incident-9", incident="incident-9", recovered_at=over)
    await journal.append(outage, ended)
    found = await JournalServices(loaded, journal).services()
    (nginx,) = (row for row in found["services"] if row["name"] == "nginx")  # type: ignore[attr-defined]
    assert (nginx["state"], nginx["since"]) == ("fine", over.isoformat())
    assert [each["since"] for each in nginx["checks"]] == [over.isoformat()] * 2


async def test_maintenance_is_added_by_a_known_person_and_ended_again(home: Home) -> None:
    loaded, journal = home
    services = JournalServices(loaded, journal)
    text = await services.add_maintenance(
        "nginx", length="1h", begins="", reason="", person="alice"
    )
    assert text.startswith("Alerts of nginx are silenced until")
    with pytest.raises(HermesError, match="not like 30m"):
        await services.add_maintenance("nginx", length="soon", begins="", reason="", person="alice")
    with pytest.raises(HermesError, match="people"):
        await services.add_maintenance(
            "nginx", length="1h", begins="", reason="", person="telegram:8"
        )
    assert "count again" in await services.end_maintenance("nginx", person="alice")
    found = await services.services()
    assert [each["target"] for each in found["maintenance"]] == ["redis"]  # type: ignore[attr-defined]


async def test_trends_say_how_much_faster_skills_are(home: Home) -> None:
    events = [each.event async for each in home[1].read(kinds=("incident.opened",))]
    titles = [each.title for each in events if isinstance(each, IncidentOpened)]
    found = await JournalTrends(home[1]).trends(weeks=13)
    assert (found["incidents"], found["open"]) == (len(titles), 1)
    fast, slow = found["with_skills"], found["without_skills"]
    assert fast["median"] < 300 < slow["median"]  # type: ignore[index]
    curve = [each["repair"]["median"] for each in found["learning"]]  # type: ignore[attr-defined]
    assert curve[0] > curve[-1] and len(curve) == 10
    assert len(found["weeks"]) >= 12  # type: ignore[arg-type]
    assert found["repeated"] == len(titles) - len(set(titles))
    assert found["cost_usd"] == pytest.approx(6.0)
    with pytest.raises(HermesError, match="there are: 4, 13, 26, 52"):
        await JournalTrends(home[1]).trends(weeks=5)
    of_nginx = await JournalTrends(home[1]).trends(service="nginx")
    assert of_nginx["incidents"] == titles.count("certificate of shop.example expires")


async def test_a_skill_has_its_proof_its_uses_and_its_life(home: Home) -> None:
    skills = HomeSkills(*home)
    mine = next(each for each in await skills.skills() if each["origin"] != "bundled")
    assert (mine["name"], mine["state"]) == ("pool-exhausted", "validated")
    assert mine["measured"]["solved_with"] == 5 and mine["applied"] == 3  # type: ignore[index]
    assert mine["live_uses"] == 3 and mine["live_failed"] == 0
    one = await skills.skill("pool-exhausted")
    assert "SHOW POOLS" in str(one["body"])
    assert [each["state"] for each in one["life"]] == ["validated", "draft"]  # type: ignore[attr-defined]
    await skills.retire("pool-exhausted", back=False, reason="", person="alice")
    assert (await skills.skill("pool-exhausted"))["state"] == "retired"
    assert (await skills.skill("pool-exhausted"))["life"][0]["by"] == "alice"  # type: ignore[index]
    assert [each["name"] for each in await skills.skills(state="retired")] == ["pool-exhausted"]


async def test_facts_of_private_chats_are_shown_to_nobody_else(home: Home) -> None:
    facts = facts_of(home)
    for words in ("", "zebra7 vault key"):
        seen = {each["id"] for each in await facts.facts(words, person="alice", limit=100)}
        assert "fact-secret000001" not in seen
        own = {each["id"] for each in await facts.facts(words, person="bob", limit=100)}
        assert "fact-secret000001" in own
    with pytest.raises(HermesError, match="there is no fact"):
        await facts.fact("fact-secret000001", person="alice")
    with pytest.raises(HermesError, match="there is no fact"):
        await facts.forget("fact-secret000001", person="alice")


async def test_a_fact_says_whose_word_it_is_and_can_be_forgotten(home: Home) -> None:
    facts = facts_of(home)
    found = (await facts.facts("orders db-7", person="alice", limit=10))[0]
    assert (found["text"], found["word_of"]) == ("orders writes to db-7", "alice")
    await facts.forget("fact-000000000001", person="alice")
    left = [each["id"] for each in await facts.facts(person="alice", limit=10)]
    assert "fact-000000000001" not in left and "fact-000000000002" in left


async def test_drills_have_their_last_score_and_trend(home: Home) -> None:
    first = (await JournalDrills(*home).scenarios())[0]
    assert (first["name"], first["played"]) == ("config-typo-after-edit", 6)
    assert first["trend"] == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    one = await JournalDrills(*home).scenario("config-typo-after-edit")
    assert one is not None and one["drills"][0]["reward"] == pytest.approx(0.8)  # type: ignore[index]
    assert await JournalDrills(*home).scenario("nonsense") is None


async def test_the_audit_is_read_in_pages_and_filtered(home: Home) -> None:
    audit = audit_of(home)
    found = await audit.actions(person="alice", limit=2)
    whats = [each["what"] for each in found["actions"]]  # type: ignore[attr-defined]
    assert whats == ["rm -rf /srv", "systemctl restart pgbouncer"]
    rest = await audit.actions(person="alice", limit=2, before=int(str(found["next"])))
    row = rest["actions"][0]  # type: ignore[index]
    assert (row["what"], row["result"], rest["next"]) == ("df -h", "ok", 0)
    assert len((await audit.actions(person="alice", limit=9, verdict="deny"))["actions"]) == 1  # type: ignore[arg-type]
    assert (await audit.actions(person="alice", limit=9, words="nothing like it"))["actions"] == []
    assert "events were checked" in await audit.verify()
    assert (await audit.chain())["verified"]["events"] == (await audit.chain())["events"]  # type: ignore[index]


async def test_what_was_done_in_a_private_chat_is_listed_without_its_words(home: Home) -> None:
    call = ToolCall(id="p1", name="terminal", arguments={})
    asked = ToolRequested(run="run-private/sub-1", call=call, command="cat zebra7", origin="chat")
    await home[1].append(asked)
    audit = audit_of(home)
    for person, what in (("alice", "in a private chat"), ("bob", "cat zebra7")):
        first = (await audit.actions(person=person, limit=1))["actions"][0]  # type: ignore[index]
        assert first["what"] == what
        hits = (await audit.actions(person=person, limit=9, words="zebra7"))["actions"]
        assert len(hits) == (person == "bob")  # type: ignore[arg-type]


async def test_settings_say_where_they_come_from_and_never_a_secret(home: Home) -> None:
    settings = HomeSettings(*home)
    rows = await settings.settings()
    by_key = {row["key"]: row for row in rows}
    assert str(by_key["sre.triage.group.depends_on.nginx"]["value"]) == '["shop"]'
    assert "config.yaml" in f"{by_key['sre.triage.group.depends_on.nginx']['where']}"
    assert len(await settings.settings(changed=True)) < len(rows) / 4
    secrets = {row["name"]: row["set"] for row in await settings.secrets()}
    assert secrets["OPENROUTER_API_KEY"] is True
    assert SECRET not in f"{rows}{await settings.channels()}{await settings.people()}"


async def test_jobs_are_previewed_added_paused_and_resumed(home: Home) -> None:
    jobs = JournalJobs(*home)
    rows = (await jobs.jobs())["jobs"]
    backups = rows[0]  # type: ignore[index]
    assert (backups["job"], backups["zone"]) == ("backups", "Europe/Berlin")
    assert backups["last_row"]["outcome"] == "ran"
    assert backups["last_row"]["delivery"] == "delivered"
    shown = jobs.preview("every weekday at 9")
    assert len(shown["times"]) == 5  # type: ignore[arg-type]
    with pytest.raises(ScheduleError):
        jobs.preview("now and then")
    draft = {"name": "", "deliver": "", "zone": "UTC", "person": "alice"}
    checked = await jobs.check("every day at 8", NIGHTLY_TASK, **draft)
    assert checked["name"] == "check-the-backups-of"
    await jobs.add("every day at 8", NIGHTLY_TASK, **draft)
    assert (await jobs.job("check-the-backups-of"))["author"] == "alice"
    await jobs.pause("backups", person="alice")
    assert (await jobs.job("backups"))["paused"] is True
    await jobs.resume("backups", person="alice")
    assert (await jobs.job("backups"))["paused"] is False
    with pytest.raises(HermesError, match="no process runs the schedule"):
        await jobs.run("backups", person="alice")
    await jobs.remove("check-the-backups-of", person="alice")
    with pytest.raises(HermesError, match="built-in"):
        await jobs.remove("briefing", person="alice")


async def test_who_has_no_name_changes_nothing(home: Home) -> None:
    loaded, journal = home
    await journal.append(PersonAdded(run="people", name="alice", ids=(("unix", "alice"),)))
    with pytest.raises(HermesError, match="mallory"):
        await JournalJobs(loaded, journal).pause("backups", person="mallory")
    with pytest.raises(HermesError, match="mallory"):
        await facts_of(home).forget("fact-000000000001", person="mallory")
    with pytest.raises(HermesError, match="mallory"):
        await HomeSkills(loaded, journal).retire(
            "pool-exhausted", back=False, reason="", person="mallory"
        )


async def test_an_empty_home_is_no_error(tmp_path: Path) -> None:
    loaded = load(home=tmp_path / "home", variables={})
    async with open_journal(loaded.store) as journal:
        assert (await JournalServices(loaded, journal).services())["services"] == []
        assert (await JournalTrends(journal).trends())["weeks"] == []
        assert await facts_of((loaded, journal)).facts("x", person="a", limit=9) == []
        assert (await audit_of((loaded, journal)).actions(person="a", limit=9))["next"] == 0
        await journal.append(opened("incident-1", "t", "web", "P2", datetime.now(UTC)))
        found = (await JournalServices(loaded, journal).services())["services"]
        assert [row["state"] for row in found] == ["incident"]  # type: ignore[attr-defined]
