"""Ten faults on a real API server, resolved by playbooks under the policy `careful`, no model."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from injected_faults import FAULTS, InjectedFault
from real_cluster import CONTEXT, RealCluster, build_folder
from shop_bench import Bench

from hermes.app.application import Application, open_application
from hermes.app.incidents.response import build_incident_context
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentDiagnosed,
    IncidentOpened,
    LayerInvestigated,
)
from hermes.core.events.tools import ToolFinished
from hermes.core.incident import incident_details
from hermes.core.protocols import JournalRecord
from hermes.settings.load import LoadedSettings, load
from hermes.sre.commander import Commander, IncidentResult

pytestmark = pytest.mark.anyio


def settings(cluster: RealCluster, home: Path) -> LoadedSettings:
    overrides = {
        "policy.set": "careful",
        "policy.announce": "0.2",
        "policy.wait": "true",
        "sre.kubernetes.kubeconfig": "~/.kube/config",
        "sre.kubernetes.context": CONTEXT,
        "sre.verify.window": "3",
        "sre.verify.patience": "40",
        "sre.verify.every": "1",
        "sre.traces": "0.5",
        "sre.agents": "false",
        "sre.learn": "false",
    }
    variables = {"PATH": os.environ["PATH"], "HOME": str(cluster.folder / "user")}
    return load(home=home, variables=variables, overrides=overrides)


async def respond(
    loaded: LoadedSettings, fault: InjectedFault, work: Path
) -> tuple[IncidentResult, Sequence[JournalRecord]]:
    async with open_application(
        loaded, origin="incident", toolsets=loaded.settings.tools.toolsets, directory=work
    ) as application:
        result = await _handle(application, fault)
        records = [each async for each in application.journal.read()]
    return result, records


async def _handle(application: Application, fault: InjectedFault) -> IncidentResult:
    run = f"incident-{fault.alert.labels['namespace']}"
    opened = IncidentOpened(
        run=run,
        incident=run,
        title=fault.alert.title,
        severity="P1",
        service=fault.alert.labels.get("deployment", fault.alert.labels.get("service", "")),
        facts=tuple(fault.alert.labels.items()),
    )
    await application.bus.publish(opened)
    context = build_incident_context(application, application.loaded.settings.sre)
    return await Commander(context, incident_details(opened)).run()


def events_of(records: Sequence[JournalRecord], kind: type) -> list:  # type: ignore[type-arg]
    return [each.event for each in records if isinstance(each.event, kind)]


def is_explained(fault: InjectedFault, records: Sequence[JournalRecord]) -> bool:
    """The diagnosis names the words, and its evidence are results whose text shows them."""
    found = events_of(records, IncidentDiagnosed)
    layers = events_of(records, LayerInvestigated)
    if not found or not layers or not found[-1].evidence:
        return False
    text = f"{found[-1].component} {found[-1].mechanism} {found[-1].value}"
    numbers = {
        each.seq: each.event.result.content
        for each in records
        if isinstance(each.event, ToolFinished)
    }
    evidence = " ".join(numbers.get(number, "") for number in found[-1].evidence)
    return all(word in text for word in fault.explains) and bool(evidence.strip())


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_resolved_and_explained(
    cluster: RealCluster, tmp_path: Path, name: str, variant: int
) -> None:
    bench = Bench(cluster, f"{name}-{variant}", variant)
    bench.prepare()
    fault = FAULTS[name](bench)
    neighbour = bench.read("deployment", "neighbour")["metadata"]["generation"]
    assert not fault.works(), "the fault is there"

    home = cluster.folder / "user" / ".hermes" / bench.namespace
    home.mkdir(parents=True)
    result, records = await respond(settings(cluster, home), fault, tmp_path)
    changes = events_of(records, ChangeBegan)
    diagnoses = [each.mechanism for each in events_of(records, IncidentDiagnosed)]
    record = {
        "fault": bench.namespace,
        "explained": is_explained(fault, records),
        "outcome": result.outcome,
        "reason": result.reason,
        "works": fault.works(),
        "diagnosis": diagnoses[-1:],
        "changes": [each.command for each in changes],
    }
    with (build_folder() / "results.jsonl").open("a") as file:
        file.write(f"{json.dumps(record)}\n")

    assert is_explained(fault, records), diagnoses
    assert result.outcome == "resolved", result.reason
    assert fault.works()
    assert all(each.undo.strip() for each in changes), "each change has its way back"
    assert bench.read("deployment", "neighbour")["metadata"]["generation"] == neighbour
