"""The mildest way to make a revert take effect is tried first, and no other service is touched."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes.declared.experiments.copied_checks import CheckReading, ExpectedReadings
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.host_programs import HostPrograms, HostService, ScheduledJob
from hermes.declared.experiments.rehearsal import Activation, plan_activations
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import Item, ItemId, ItemKind, StateChange
from hermes.declared.store import StateStore

CONFIGURED = "ExecStart=/usr/bin/{name} /etc/{name}.conf\n"


def service(name: str, state: str = "active", more: str = "") -> HostService:
    return HostService(name=name, state=state, unit_text=CONFIGURED.format(name=name) + more)


def prepared(
    path: str,
    *services: HostService,
    failing: str = "web",
    jobs: tuple[ScheduledJob, ...] = (),
    kind: ItemKind = "file",
    sides: tuple[Item | None, Item] = (Item("a"), Item("b")),
    store: StateStore | None = None,
) -> CopySetup:
    unused: Any = None
    return CopySetup(
        source=unused,
        run_checks=unused,
        expected=ExpectedReadings(failing=(CheckReading(name="http", ok=False),)),
        programs=HostPrograms(services=services, jobs=jobs),
        services=failing.split(),
        store=store or StateStore(Path("unused")),
        suspects=(Suspect(change=StateChange(ItemId(kind, path), *sides)),),
    )


def planned(path: str, *services: HostService, **options: Any) -> list[list[str]]:
    """The commands of each step."""
    setup = prepared(path, *services, **options)
    causes = [Revert(suspect=each) for each in setup.suspects]
    steps = plan_activations(setup, CopyTrial(setup), causes)
    return [[each.command for each in step] for step, _ in steps]


def restart(name: str) -> str:
    return f"systemctl reset-failed {name} 2>/dev/null; systemctl restart {name}"


def test_only_the_failing_service_is_restarted_when_it_reads_the_file() -> None:
    assert planned("/etc/web.conf", service("web"), service("db")) == [[restart("web")]]


def test_a_service_that_failed_is_started_also_when_it_does_not_name_the_file() -> None:
    assert planned("/var/lib/x", service("web", "failed"), service("db")) == [[restart("web")]]


def test_failing_services_are_restarted_one_by_one() -> None:
    """One of them may work: the service behind a proxy that fails."""
    proxy = service("proxy", more="Environment=SITE=/etc/web.conf\n")
    steps = planned("/etc/web.conf", proxy, service("web"), failing="proxy web")
    assert steps == [[restart("proxy")], [restart("web")]]


def test_failing_services_that_do_not_name_the_file_are_restarted_one_by_one() -> None:
    """A proxy reads its sites by a pattern; the service behind it works."""
    steps = planned("/etc/sites/web.conf", service("proxy"), service("web"), failing="proxy web")
    assert steps == [[], [restart("proxy")], [restart("web")]]


def test_a_reload_comes_before_a_restart() -> None:
    web = service("web", more="ExecReload=/bin/kill -HUP $MAINPID\n")
    assert planned("/etc/web.conf", web) == [["systemctl reload web"], [restart("web")]]


def test_the_reader_behind_the_failing_service_comes_before_the_failing_service() -> None:
    steps = planned("/etc/db.conf", service("web"), service("db"), service("cache"))
    assert steps == [[restart("db")], [restart("web")]]


def test_a_file_that_no_service_names_may_take_effect_at_once() -> None:
    assert planned("/etc/hosts", service("web")) == [[], [restart("web")]]


def test_a_scheduled_job_that_reads_the_file_runs_first() -> None:
    job = ScheduledJob(command="/opt/build /etc/names.d")
    steps = planned("/etc/names.d/10", service("web"), jobs=(job,))
    assert steps[:2] == [[], ["cd / && sh -c '/opt/build /etc/names.d'"]]


def test_an_idle_service_is_not_started() -> None:
    assert planned("/etc/db.conf", service("web"), service("db", "inactive")) == [
        [],
        [restart("web")],
    ]


def test_the_own_test_of_a_configuration_comes_before_the_restart() -> None:
    test = Activation(kind="restart", target="nginx", test="nginx -t")
    assert test.command.startswith("nginx -t && {")
    nginx = HostService(name="nginx", state="active", unit_text="ExecStart=/usr/sbin/nginx -g x\n")
    steps = planned("/etc/systemd/system/nginx.service", nginx, failing="nginx")
    assert steps == [[test.command]]


def test_a_service_that_is_stopped_is_not_restarted() -> None:
    stray = service("stray", more="Description=stray.service\n")
    steps = planned("stray.service", service("web", "failed"), stray, kind="service")
    assert steps == [[restart("web")]]


def test_a_service_that_took_the_port_of_another_stays_stopped_although_it_answers_the_check() -> (
    None
):
    idle = Item("a", {"active": "inactive", "enabled": "disabled"})
    started = Item("b", {"active": "active", "enabled": "enabled"})
    stray = service("stray")
    steps = planned("stray.service", stray, failing="stray", kind="service", sides=(idle, started))
    assert steps == [[]]


def test_what_an_added_job_started_is_ended_before_the_service_starts(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    added = Item(store.keep(b"* * * * * root /srv/stray.py 80\n"), {"type": "file"})
    steps = planned("/etc/cron.d/stray", service("web", "failed"), sides=(None, added), store=store)
    assert steps == [[r"{ pkill -f -x -- '/srv/stray\.py 80' || true; }"], [restart("web")]]


def test_the_service_whose_file_an_added_job_removed_is_restarted(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    line = b"* * * * * root find /srv/shop/run -type s -delete\n"
    shop = service("shop", more="Environment=SOCKET=/srv/shop/run/shop.sock\n")
    steps = planned(
        "/etc/cron.d/cleanup",
        service("web"),
        shop,
        service("db"),
        sides=(None, Item(store.keep(line), {"type": "file"})),
        store=store,
    )
    assert steps == [[], [restart("shop")], [restart("web")]]


def test_a_changed_definition_of_another_supervisor_cannot_be_tried() -> None:
    source = "SourcePath=/etc/sup.conf\n"
    supervised = replace(service("web", more=source), commands={"restart": "sv restart web"})
    label = "file /etc/sup.conf"
    assert prepared("/etc/sup.conf", supervised).changed_definitions == [label]
    assert prepared("/etc/web.conf", supervised).changed_definitions == []
    assert prepared("/etc/sup.conf", service("web", more=source)).changed_definitions == []
    read_again = replace(supervised, commands={"restart": "supervisorctl restart web"})
    assert prepared("/etc/sup.conf", read_again).changed_definitions == []
