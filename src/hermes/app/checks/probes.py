"""Selects the probes of a watch: declared in a file or discovered, and admitted by the policy."""

from collections.abc import Callable
from pathlib import Path

from hermes.app.journal.upkeep import write_warning
from hermes.app.service.service_files import LOG_FOLDER
from hermes.core.actions import Policy
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.admission import admit_probes
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.learned.state import LearnedCheck
from hermes.sre.probes.native import LOCAL_ENVIRONMENT, with_home_disk, without_own_logs
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_file import load_probes
from hermes.sre.probes.probe_list import (
    PeriodicDiscovery,
    ProbeList,
    ServiceQuestion,
    build_probe_list,
)
from hermes.sre.probes.scheduler import ProbeScheduler


class AdmittedProbes(Value, kw_only=True, frozen=True):
    """The probes of a home that the policy allows."""

    probes: tuple[Probe, ...]
    found_now: bool
    """No file declares probes: these were found by discovery."""
    refused: tuple[str, ...] = ()
    missing: dict[str, str] = {}
    """Expected services that do not run, with the reason why they are expected."""
    questions: tuple[ServiceQuestion, ...] = ()
    lacks: str = ""
    """What the host lacks, and what is used instead."""
    learned: tuple[LearnedCheck, ...] = ()
    """The learned checks as the watch stored them last."""


def declared_probes(loaded: LoadedSettings) -> tuple[Probe, ...] | None:
    return load_probes(loaded.home / loaded.settings.sre.probes.file, loaded.home)


async def find_probes(
    loaded: LoadedSettings, environment: Environment, policy: Policy, store: InventoryStore
) -> AdmittedProbes:
    """The probes that the file declares; without a file, those discovered or stored in `store`."""
    known = declared_probes(loaded)
    if known is not None:
        return await select_admitted_probes(
            loaded, ProbeList(probes=known), policy, environment, found_now=False
        )
    probe_list = await build_probe_list(environment, store, loaded.settings.sre.probes)
    return await select_admitted_probes(loaded, probe_list, policy, environment, found_now=True)


AdaptProbe = Callable[[Probe], Probe | None]
"""Changes a probe before it runs, or leaves it out."""


async def follow_services(
    loaded: LoadedSettings,
    environment: Environment,
    policy: Policy,
    store: InventoryStore,
    scheduler: ProbeScheduler,
    adapt: AdaptProbe,
    *,
    own_ports: tuple[int, ...] = (),
) -> None:
    """New services get probes, and forgotten services lose theirs; where a file declares the
    probes, services without one are reported. `own_ports` are those of the watch itself."""
    declared, reported = declared_probes(loaded), set[str]()

    async def adopt(probe_list: ProbeList) -> None:
        if declared is not None:
            new = {each.text for each in probe_list.questions} - reported
            reported.update(new)
            for text in sorted(new):
                write_warning(f"question: {text}")
        admitted = await select_admitted_probes(
            loaded, probe_list, policy, environment, found_now=declared is None
        )
        probes = [each for each in map(adapt, admitted.probes) if each is not None]
        await scheduler.replace_probes(probes)

    settings = loaded.settings.sre.probes
    await PeriodicDiscovery(
        environment, store, settings, adopt, declared=declared, own_ports=own_ports
    ).run()


async def select_admitted_probes(
    loaded: LoadedSettings,
    probe_list: ProbeList,
    policy: Policy,
    environment: Environment,
    *,
    found_now: bool,
) -> AdmittedProbes:
    is_local = environment.name == LOCAL_ENVIRONMENT
    probes = probe_list.probes
    if is_local and found_now:
        probes = without_own_logs(probes, own_log_files(loaded))
    admitted = await admit_probes(probes, policy, environment)
    return AdmittedProbes(
        probes=with_home_disk(admitted.probes, loaded.home) if is_local else admitted.probes,
        found_now=found_now,
        refused=admitted.refused,
        missing=probe_list.missing,
        questions=probe_list.questions,
        lacks=probe_list.lacks,
    )


def own_log_files(loaded: LoadedSettings) -> tuple[Path, ...]:
    """Return the logs that Hermes itself writes: what it reports there is no news of the host."""
    sinks = loaded.settings.sre.notices.sinks
    streams = (Path(f"/proc/self/fd/{number}") for number in (1, 2))
    return (
        loaded.home,
        LOG_FOLDER,
        *(loaded.home / each.path for each in sinks if each.path),
        *(each for each in streams if each.is_file()),
    )
