"""Ten incidents with Prometheus, databases and a cluster: is the seeded cause named with evidence?

`python bench/systems.py [NAME…]`, as root. Each scenario is played twice: by the read-only checks
alone, and with a scripted expert. The expert asks the same questions in every incident, and says
what its rules recognise in the answers; it never learns which fault was seeded. Playbooks are off,
and the policy set is `observe`: nothing is changed. The three scenarios of a cluster need the
programs of `scripts/kubernetes-build` in HERMES_KUBERNETES. One JSON row a run.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "kubernetes"))
sys.path.insert(0, str(Path(__file__).parent / "systems"))

from expert import Expert
from servers import MAX_CONNECTIONS, Surroundings, open_surroundings, run_sql, wait_until

from hermes.app.application import Application, open_application
from hermes.app.incidents.response import build_incident_context
from hermes.core.events.incidents import IncidentDiagnosed, IncidentOpened, LayerInvestigated
from hermes.core.events.tools import ToolFinished
from hermes.core.incident import incident_details
from hermes.core.run_ids import new_id
from hermes.settings.load import LoadedSettings, load
from hermes.sre.commander import Commander
from hermes.sre.responders.model_team import ModelTeam
from hermes.sre.settings import CrewSettings


@dataclass(frozen=True)
class Scenario:
    title: str
    labels: dict[str, str]
    cause: tuple[str, ...]
    """Words that name the seeded cause."""
    seed: Callable[[Surroundings], Any]
    """A context manager that breaks something, and mends it."""


@contextmanager
def target_down(around: Surroundings) -> Iterator[None]:
    around.exporters["checkout"].stop()
    around.wait_for('up{job="checkout"} == 0')
    yield
    around.exporters["checkout"].start()
    around.wait_for('up{job="checkout"} == 1')


@contextmanager
def server_errors(around: Surroundings) -> Iterator[None]:
    exporter = around.exporters["payments"]
    began, read = time.monotonic(), exporter.read

    def rising() -> str:
        return f'http_requests_total{{code="500"}} {9 * int(time.monotonic() - began)}\n'

    exporter.read = rising
    around.wait_for('sum by (job) (rate(http_requests_total{code=~"5.."}[1m])) > 1')
    yield
    exporter.read = read
    gone = 'sum by (job) (rate(http_requests_total{code=~"5.."}[1m])) > 0'
    wait_until(lambda: not around.query(gone), "the errors are over")


@contextmanager
def expiring_certificate(around: Surroundings) -> Iterator[None]:
    ends = time.time() + 2 * 86_400
    around.texts["blackbox"] = (
        f'probe_ssl_earliest_cert_expiry{{instance="shop.example"}} {ends:.0f}\n'
    )
    around.wait_for("probe_ssl_earliest_cert_expiry")
    yield
    around.texts["blackbox"] = ""


@contextmanager
def session(*words: object) -> Iterator[IO[str]]:
    process = subprocess.Popen([str(each) for each in words], stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    assert process.stdin is not None
    yield process.stdin
    process.kill()
    process.wait()


def _psql(around: Surroundings, application: str) -> tuple[object, ...]:
    return (
        "psql",
        "-X",
        "-q",
        f"host={around.postgres} user=postgres application_name={application}",
    )


@contextmanager
def open_transaction(around: Surroundings) -> Iterator[None]:
    with session(*_psql(around, "migration")) as one, session(*_psql(around, "shop")) as other:
        one.write("begin;\nalter table orders add column note text;\n")
        one.flush()
        idle = "select count(*) from pg_stat_activity where state = 'idle in transaction'"
        wait_until(lambda: run_sql(around.postgres, idle).strip() == "1", "an open transaction")
        other.write("select count(*) from orders;\n")
        other.flush()
        blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        wait_until(lambda: run_sql(around.postgres, blocked).strip() == "1", "a session that waits")
        yield


@contextmanager
def used_up_connections(around: Surroundings) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS - 5):
            opened = stack.enter_context(session(*_psql(around, "report-job")))
            opened.write("select 1;\n")
            opened.flush()
        around.wait_for(f"pg_stat_activity_count > {MAX_CONNECTIONS - 6}")
        yield


@contextmanager
def row_lock(around: Surroundings) -> Iterator[None]:
    client = ("mariadb", "--no-defaults", f"--socket={around.mariadb}/s", "-u", "root", "shop")
    with session(*client) as one, session(*client) as other:
        one.write("begin;\nupdate orders set n = 4 where n = 1;\n")
        one.flush()
        other.write("set innodb_lock_wait_timeout = 900; update orders set n = 5 where n = 1;\n")
        other.flush()
        waits = ["-N", "-e", "select count(*) from information_schema.innodb_lock_waits"]
        asked = [str(each) for each in (*client, *waits)]
        wait_until(
            lambda: subprocess.run(asked, capture_output=True, check=True).stdout.strip() == b"1",
            "a thread that waits",
        )
        yield


@contextmanager
def full_redis(around: Surroundings) -> Iterator[None]:
    client = ["redis-cli", "-s", str(around.redis / "s")]
    for number in range(200):
        words = [*client, "set", f"key-{number}", "x" * 20_000]
        if b"OOM" in subprocess.run(words, capture_output=True, check=True).stdout:
            break
    yield
    subprocess.run([*client, "flushall"], capture_output=True, check=True)


SCENARIOS = {
    "target-down": Scenario(
        "orders cannot be paid", {"service": "shop"}, ("checkout", "not answer"), target_down
    ),
    "server-errors": Scenario(
        "customers complain", {"service": "shop"}, ("payments",), server_errors
    ),
    "certificate": Scenario(
        "browsers will warn", {"service": "shop"}, ("shop.example",), expiring_certificate
    ),
    "open-transaction": Scenario(
        "orders are slow", {"service": "shop"}, ("alter table orders",), open_transaction
    ),
    "connections": Scenario(
        "logins fail now and then", {"service": "shop"}, ("connections", "report-job"),
        used_up_connections,
    ),
    "row-lock": Scenario(
        "the basket hangs", {"service": "shop"}, ("update orders", "lock"), row_lock
    ),
    "full-redis": Scenario("sessions are lost", {"service": "shop"}, ("maxmemory",), full_redis),
}  # fmt: skip
CLUSTER_SCENARIOS = {"crash-loop": 1, "missing-key": 1, "quota": 0}
"""Faults of tests/kubernetes, and their variants."""


def settings(around: Surroundings, home: Path, more: dict[str, str]) -> LoadedSettings:
    databases = {
        "orders": {"kind": "postgres", "host": str(around.postgres), "user": "postgres"},
        "shop": {
            "kind": "mysql",
            "host": f"{around.mariadb}/s",
            "user": "root",
            "database": "shop",
        },
        "cache": {"kind": "redis", "host": f"{around.redis}/s"},
    }
    (home / "config.yaml").write_text(json.dumps({"tools": {"databases": databases}}))
    overrides = {
        "policy.set": "observe",
        "systems.prometheus.url": around.prometheus,
        "sre.reflex": "false",
        "sre.learn": "false",
        "sre.verify.window": "1",
        **more,
    }
    variables = {"PATH": os.environ["PATH"], "HOME": more.get("home", str(home))}
    overrides.pop("home", None)
    return load(home=home, variables=variables, overrides=overrides)


async def play(loaded: LoadedSettings, title: str, labels: dict[str, str], *, expert: bool) -> Any:
    """The text that names a cause with evidence, and whether its evidence shows each word."""
    async with open_application(
        loaded, origin="incident", toolsets=loaded.settings.tools.toolsets, directory=loaded.home
    ) as application:
        run = new_id("incident")
        opened = IncidentOpened(
            run=run, incident=run, title=title, severity="P1", service=labels.get("service", ""),
            facts=tuple(labels.items()),
        )  # fmt: skip
        await application.bus.publish(opened)
        context = build_incident_context(
            application,
            application.loaded.settings.sre,
            responder=_expert_team(application) if expert else None,
        )
        await Commander(context, incident_details(opened)).run()
        return [each async for each in application.journal.read()]


def _expert_team(application: Application) -> ModelTeam:
    model = Expert()
    sre = application.loaded.settings.sre
    return ModelTeam(
        application.agent_dependencies,
        CrewSettings(layers=("data",)),
        lambda role: model,  # type: ignore[arg-type, return-value]
        kubernetes=sre.kubernetes,
    )


def named_with_evidence(
    records: Sequence[Any], cause: tuple[str, ...], *, expert: bool
) -> tuple[bool, str]:
    """With the expert only the last diagnosis counts; without, what an escalation was told, too."""
    results = {
        each.seq: each.event.result.content
        for each in records
        if isinstance(each.event, ToolFinished)
    }
    claims: list[tuple[str, Sequence[int]]] = []
    for event in (each.event for each in records):
        if isinstance(event, IncidentDiagnosed):
            text = f"{event.component} {event.mechanism} {event.value}"
            claims.append((text, event.evidence))
            if not expert:
                claims += [(line.text, line.evidence) for line in event.escalation]
        elif isinstance(event, LayerInvestigated) and not expert:
            claims += [(text, event.evidence) for text in event.findings]
    for text, evidence in claims[-1:] if expert else claims:
        shown = " ".join(results.get(number, "") for number in evidence)
        if all(word in text for word in cause) and shown.strip():
            return True, text[:300]
    return False, claims[-1][0][:300] if claims else ""


@contextmanager
def open_cluster() -> Iterator[Any]:
    from node_agent import NodeAgent  # noqa: PLC0415 - only with the built programs
    from real_cluster import ADMIN_TOKEN, run_cluster  # noqa: PLC0415

    with TemporaryDirectory(dir=Path.home(), prefix=".hermes-bench-") as name:
        folder = Path(name)
        with run_cluster(folder) as cluster, NodeAgent(cluster.client, folder).run():
            (folder / "user" / ".kube").mkdir(parents=True)
            cluster.write_kubeconfig("user/.kube/config", ADMIN_TOKEN)
            yield cluster


def play_twice(
    around: Surroundings, name: str, scenario: Scenario, more: dict[str, str] | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {"scenario": name}
    for expert in (False, True):
        with TemporaryDirectory(prefix="home-") as home:
            loaded = settings(around, Path(home), more or {})
            asked = partial(play, loaded, scenario.title, scenario.labels, expert=expert)
            named, text = named_with_evidence(anyio.run(asked), scenario.cause, expert=expert)
        row |= {
            "expert" if expert else "checks": named,
            f"said_{'expert' if expert else 'checks'}": text,
        }
    print(json.dumps(row), flush=True)
    return row


def main(wanted: Sequence[str]) -> None:
    rows = []
    with open_surroundings() as around:
        for name, scenario in SCENARIOS.items():
            if not wanted or name in wanted:
                with scenario.seed(around):
                    rows.append(play_twice(around, name, scenario))
        chosen = {k: v for k, v in CLUSTER_SCENARIOS.items() if not wanted or k in wanted}
        if chosen and "HERMES_KUBERNETES" in os.environ:
            rows += play_in_cluster(around, chosen)
    for kind in ("checks", "expert"):
        print(f"{kind}: {sum(each[kind] for each in rows)} of {len(rows)}")


def play_in_cluster(around: Surroundings, chosen: dict[str, int]) -> list[dict[str, Any]]:
    from injected_faults import FAULTS  # noqa: PLC0415 - only with the built programs
    from real_cluster import CONTEXT  # noqa: PLC0415
    from shop_bench import Bench  # noqa: PLC0415

    rows = []
    with open_cluster() as cluster:
        more = {
            "home": str(cluster.folder / "user"),
            "sre.kubernetes.kubeconfig": "~/.kube/config",
            "sre.kubernetes.context": CONTEXT,
        }
        for name, variant in chosen.items():
            bench = Bench(cluster, name, variant)
            bench.prepare()
            fault = FAULTS[name](bench)
            seed: Any = None
            labels = dict(fault.alert.labels)
            cause = {"crash-loop": "DB_URL is not set"}.get(name, fault.explains[0])
            scenario = Scenario(fault.alert.title, labels, (cause,), seed)
            rows.append(play_twice(around, name, scenario, more))
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
