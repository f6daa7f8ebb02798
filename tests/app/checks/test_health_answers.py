"""A chat without a capable model says what checks and the journal say, and invents nothing."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hermes.app import open_application
from hermes.app.checks.health import LIMITS_NOTE, NO_MODEL_ANSWER, check_health_now
from hermes.app.models import CHECKS_MODEL_REFERENCE, lacks_capable_model
from hermes.app.tools.tooling import configured_environment
from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.events.runs import ModelAnswered
from hermes.core.incident import WATCH_RUN
from hermes.models.settings import ModelSettings
from hermes.plumbing.files import FileLock
from hermes.settings.load import LoadedSettings, load
from hermes.sre.probes.alerts import alert_fingerprint
from hermes.sre.probes.probe import Probe

pytestmark = pytest.mark.anyio

PROBES = """\
probes:
- {name: web-port, kind: port, what: "127.0.0.1:%d", service: nginx}
- {name: cache-port, kind: port, what: "127.0.0.1:%d", service: redis, fails: 1}
- {name: disk-root, kind: disk, what: /, limit: 101}
- {name: log-mail, kind: log, what: /var/log/mail.log, pattern: error, service: mail}
"""


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def loaded(tmp_path: Path, listening: int) -> LoadedSettings:
    home = tmp_path / "home"
    home.mkdir()
    (home / "probes.yaml").write_text(PROBES % (listening, unused_port()))
    return load(home=home, variables={"PATH": os.environ["PATH"]})


async def asked(loaded: LoadedSettings, question: str) -> str:
    async with open_application(loaded, directory=loaded.home) as house:
        conversation = await house.begin(question)
        return await conversation.say(question)


async def test_a_service_that_works_is_reported_with_the_check_that_said_so(
    loaded: LoadedSettings,
) -> None:
    answer = await asked(loaded, "Is nginx running?")
    assert "fine" in answer
    assert "[check web-port]" in answer
    assert "cache-port" not in answer
    assert answer.endswith(LIMITS_NOTE)


async def test_the_kind_of_a_probe_may_be_the_name_of_its_server(loaded: LoadedSettings) -> None:
    (loaded.home / "probes.yaml").write_text(
        f"probes: [{{name: redis-16379, kind: redis, what: '{unused_port()}', service: cache}}]"
    )
    answer = await asked(loaded, "is redis up?")
    assert "[check redis-16379]" in answer


async def test_a_question_about_the_past_names_its_incident(loaded: LoadedSettings) -> None:
    async with open_application(loaded, directory=loaded.home) as house:
        await house.bus.publish(
            IncidentOpened(
                run="incident-7",
                incident="incident-7",
                severity="P1",
                title="nothing answers",
                service="nginx",
            ),
            IncidentOpened(
                run="incident-8", incident="incident-8", severity="P2", title="full", service="mail"
            ),
        )
    for question in ("why was nginx down at 02:08?", "what happened to nginx in the last hour?"):
        answer = await asked(loaded, question)
        assert "incident-7" in answer
        assert "incident-8" not in answer
    assert "incident-7" not in await asked(loaded, "is nginx up?")


async def test_a_service_that_fails_is_reported_as_failing(loaded: LoadedSettings) -> None:
    answer = await asked(loaded, "why is redis down?")
    assert "FAILING" in answer
    assert "[check cache-port]" in answer


async def test_what_no_check_is_about_is_unknown_and_not_stopped(loaded: LoadedSettings) -> None:
    answer = await asked(loaded, "is postgres running?")
    assert "No check on this host is about postgres, so I do not know." in answer
    answer = await asked(loaded, "is mail running?")
    assert "No check says whether mail works, so I do not know." in answer


async def test_disks_are_answered_from_the_checks_of_disks(loaded: LoadedSettings) -> None:
    answer = await asked(loaded, "how full is my disk?")
    assert "[check disk-root]" in answer
    assert "web-port" not in answer


async def test_health_counts_the_checks_and_names_what_fails(loaded: LoadedSettings) -> None:
    answer = await asked(loaded, "is anything wrong here?")
    assert "of 4 checks made just now are fine" in answer
    assert "[check cache-port]" in answer
    assert "Open incidents in the journal: none." in answer


async def test_incidents_are_answered_from_the_journal(loaded: LoadedSettings) -> None:
    async with open_application(loaded, directory=loaded.home) as house:
        event = IncidentOpened(run="inc-1", incident="inc-1", title="shop is slow", severity="P2")
        await house.bus.publish(event)
    answer = await asked(loaded, "any open incidents?")
    assert "Open incidents in the journal: 1." in answer
    assert "inc-1: open" in answer
    assert "shop is slow" in answer


async def test_errors_in_a_log_that_the_watch_reports_are_not_called_fine(
    loaded: LoadedSettings, tmp_path: Path
) -> None:
    """One round cannot see how many lines a minute are written: the watch can."""
    log = tmp_path / "mail.log"
    log.write_text("error: all is lost\n")
    probes = f"probes:\n- {{name: log-mail, kind: log, what: {log}, service: mail}}\n"
    (loaded.home / "probes.yaml").write_text(probes)
    _, fine, _ = await check_health_now(loaded, tmp_path)
    assert [each.ok for each in fine if each.name == "log-mail"] == [True]
    text = f"60.0 lines a minute of {log} report errors"
    async with configured_environment(loaded, tmp_path) as environment:
        name = alert_fingerprint(Probe(name="log-mail", kind="log"), environment)
    alert = AlertRaised(run=WATCH_RUN, fingerprint=name, title="mail", text=text, source="probe")
    async with open_application(loaded, directory=loaded.home) as house:
        await house.bus.publish(alert)
    checked, stale, _ = await check_health_now(loaded, tmp_path)
    [unknown] = [each for each in stale if each.name == "log-mail"]
    assert unknown.ok is None, "no watch runs, so nobody knows"
    assert "when a watch ran last: 60.0 lines a minute" in unknown.detail
    assert checked.unknown == ("log-mail",)
    with FileLock(loaded.home / "locks" / f"{WATCH_RUN}.lock"):
        checked, reported, _ = await check_health_now(loaded, tmp_path)
    [failing] = [each for each in reported if each.name == "log-mail"]
    assert failing.ok is False
    assert failing.detail.startswith(f"{text} (reported by the watch since ")
    assert (checked.ok, checked.failing) == (False, ("log-mail",))


@pytest.mark.parametrize("question", ["write a poem", "restart sshd", "what is the capital?", ""])
async def test_everything_else_is_refused_with_what_would_help(
    loaded: LoadedSettings, question: str
) -> None:
    assert await asked(loaded, question) == NO_MODEL_ANSWER


async def test_the_journal_says_that_no_language_model_answered(loaded: LoadedSettings) -> None:
    async with open_application(loaded, directory=loaded.home) as house:
        conversation = await house.begin()
        await conversation.say("how is the disk?")
        run = conversation.run
        models = [
            each.event.model
            async for each in house.journal.read(run=run, kinds=("model.answered",))
            if isinstance(each.event, ModelAnswered)
        ]
        assert models == [CHECKS_MODEL_REFERENCE]
    async with open_application(loaded, directory=loaded.home) as house:
        resumed = await house.resume(run)
        assert resumed.model.name == CHECKS_MODEL_REFERENCE
        assert not resumed.notes


def test_a_capable_model_is_one_that_was_chosen_or_has_its_key(loaded: LoadedSettings) -> None:
    assert lacks_capable_model(loaded, "")
    assert lacks_capable_model(loaded, "local:")
    assert not lacks_capable_model(loaded, "local:big.gguf")
    assert not lacks_capable_model(loaded, "openai:gpt-9"), "it says that its key is missing"
    fresh = msgspec.structs.replace(loaded, origins={})
    settings = msgspec.structs.replace(fresh.settings, model=ModelSettings())
    assert lacks_capable_model(msgspec.structs.replace(fresh, settings=settings), "")
