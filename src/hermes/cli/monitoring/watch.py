"""`hermes watch`: runs the watch, or discovers what to watch on this host."""

import signal
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click
import msgspec

from hermes.cli import exit_codes
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import confirm, echo, note, print_json, print_table
from hermes.core.errors import (
    HermesError,
    SettingsError,
    StoreCorrupt,
    StoreTooNew,
    innermost_error,
)
from hermes.environments.processes.spawn import raise_priority
from hermes.plumbing.files import PUBLIC_MODE, write_atomically
from hermes.plumbing.long_running import limit_heap, print_crashes
from hermes.settings import process_environment
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.discovery import DiscoveryResult, discover_probes
from hermes.sre.probes.inventory import InventoryStore, missing_probes
from hermes.sre.probes.probe import PROVISIONAL_LABEL, STATE_LABEL
from hermes.sre.probes.probe_file import (
    is_unedited,
    load_probes,
    merge_probes,
    parse_probes,
    probe_file_warnings,
    render_probe_file,
)
from hermes.sre.settings import ProbeSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from hermes.app.models import ModelReachability
    from hermes.app.watch import RunningWatch
    from hermes.plumbing.http_service import HttpRoute


FIRST_GATEWAY_PAUSE_S, MAX_GATEWAY_PAUSE_S = 5.0, 300.0
FIRST_RESTART_PAUSE_S, MAX_RESTART_PAUSE_S = 1.0, 60.0
"""Seconds before a watch that failed starts again."""
FINAL_ERRORS = (StoreCorrupt, StoreTooNew)
"""Waiting does not help against these: a person must act."""


@cli_command("""
hermes watch --discover                show what can be watched here
hermes watch --discover --write        and write it to probes.yaml, to be edited
hermes watch                           on call, until Ctrl-C
hermes watch --once                    handle what is open now, then exit
hermes watch --model none              no model: playbooks and checks only
hermes watch --kubernetes              warnings of the cluster in sre.kubernetes, too
""")
@click.option("--discover", is_flag=True, help="Show what can be watched, and exit.")
@click.option("--write", is_flag=True, help="With --discover: write it to probes.yaml.")
@click.option("--merge", is_flag=True, help="With --discover: add what is new to probes.yaml.")
@click.option("--yes", is_flag=True, help="With --discover: replace an edited file without asking.")
@click.option("--once", is_flag=True, help="Exit when nothing is open any more.")
@click.option(
    "--model",
    default="",
    help="A model; `none`: playbooks and checks only; default: as configured.",
)
@click.option("--kubernetes", is_flag=True, help="Take warning events of the cluster, too.")
@click.option("--no-listen", is_flag=True, help="Do not receive alerts over HTTP.")
def watch(ctx: click.Context, /, as_json: bool, **options: object) -> int:
    """Detect outages, find the cause, fix what the rules allow, verify the fix and report.

    Incidents that an earlier watch left open are continued. Requests that need a person wait:
    `hermes approvals list` in another terminal. `hermes incident watch` shows the work live.
    """
    if options["discover"] or options["write"] or options["merge"]:
        _discover_services(load_settings(ctx), options, as_json)
        return exit_codes.OK
    return _watch(ctx, options, as_json)


def _watch(ctx: click.Context, options: dict[str, object], as_json: bool) -> int:
    loaded = load_settings(ctx)
    if options.get("kubernetes"):
        from hermes.app.alert_sources import with_cluster_events

        loaded = with_cluster_events(loaded)
    if not raise_priority(loaded.settings.sre.niceness):
        note("this user may not raise the priority of the watch: it may be late on a busy host")
    limit_heap()
    print_crashes()
    for line in probe_file_warnings(probes_file(loaded, loaded.settings.sre.probes), loaded.home):
        note(line)
    anyio.run(_run_watch, loaded, options, as_json)
    return exit_codes.OK


@cli_command("""
hermes up                    watch, schedules, chats and the API, until Ctrl-C
hermes up --model none       no model: playbooks and checks only
""")
@click.option(
    "--model",
    default="",
    help="A model; `none`: playbooks and checks only; default: as configured.",
)
def up(ctx: click.Context, /, as_json: bool, model: str) -> int:
    """Run everything that is configured in one process: the watch with its schedules, the chat
    channels, alerts and the API.

    Chats need a channel (`hermes channels list`), the API needs a token (`hermes token add`).
    Each part also runs alone: `hermes watch`, `hermes gateway run`.
    """
    return _watch(ctx, {"model": model, "once": False, "no_listen": False, "up": True}, as_json)


async def _run_watch(loaded: LoadedSettings, options: dict[str, object], as_json: bool) -> None:
    ending = anyio.Event()

    async def watch_once(on_call: anyio.Event) -> bool:
        return await _watch_journal(loaded, options, as_json, on_call, ending)

    # `--json | head`: its reader has ended. A pipe of something else may break at any time.
    final = (*FINAL_ERRORS, BrokenPipeError) if as_json else FINAL_ERRORS
    await keep_watching(watch_once, (Exception,) if options["once"] else final, ending=ending)


async def keep_watching(
    watch_once: "Callable[[anyio.Event], Awaitable[bool]]",
    final: "tuple[type[Exception], ...]" = FINAL_ERRORS,
    *,
    ending: anyio.Event | None = None,
    first_pause_s: float = FIRST_RESTART_PAUSE_S,
) -> None:
    """Start it again while it returns True, and after whatever fails once it is on call: a bug
    must not leave the host unwatched. What fails before that, or once `ending` is set, is raised,
    and so are `final` errors.

    `watch_once` sets its event when it is on call, and returns whether it must restart.
    """
    pause_s, on_call = first_pause_s, anyio.Event()
    while True:
        began = anyio.current_time()
        try:
            if not await watch_once(on_call):
                return
            note("the journal was replaced: the watch restarts on the new one")
            continue
        except Exception as error:  # a bug in any part must not leave the host unwatched
            ends = ending is not None and ending.is_set()
            if ends or not on_call.is_set() or isinstance(innermost_error(error), final):
                raise
            if anyio.current_time() - began > MAX_RESTART_PAUSE_S:
                pause_s = first_pause_s
            _report_failure(error, pause_s)
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_RESTART_PAUSE_S)


def _report_failure(error: Exception, pause_s: float) -> None:
    import traceback

    cause = innermost_error(error)
    where = traceback.extract_tb(cause.__traceback__)[-1:]
    at = f" ({Path(where[0].filename).name}, line {where[0].lineno})" if where else ""
    what = str(cause) if isinstance(cause, HermesError) else f"{type(cause).__name__}: {cause}{at}"
    blame = "" if isinstance(cause, HermesError) else ". This is a bug in Hermes: please report it"
    with suppress(OSError):
        note(f"the watch failed: {what}; it starts again in {pause_s:.0f} s{blame}")
        if process_environment.is_debugging():
            traceback.print_exception(error)


async def _watch_journal(
    loaded: LoadedSettings,
    options: dict[str, object],
    as_json: bool,
    on_call: anyio.Event,
    ending: anyio.Event,
) -> bool:
    """Watch until the end; True when the journal was replaced and the watch must restart."""
    from hermes.app.service.manager_notification import ManagerNotification
    from hermes.app.watch import ALL_OUTPUTS, open_watch

    model, rebuilt, folder = str(options["model"]), False, Path.cwd()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(_open_api(loaded, options, folder))
        running = await stack.enter_async_context(
            open_watch(
                loaded,
                model=model,
                folder=folder,
                listen=not options["no_listen"],
                outputs=("chats",) if as_json else ALL_OUTPUTS,
                api=api,
            )
        )
        if not as_json:
            _print_start(running, up=bool(options.get("up")))
        on_call.set()
        async with anyio.create_task_group() as group:
            if options.get("up"):
                group.start_soon(_keep_gateway, loaded, _chat_model(options))
            if not as_json and running.reachability is not None:
                group.start_soon(_report_unreachable_model, running.reachability)

            async def restart_on_rebuild() -> None:
                nonlocal rebuilt
                await running.wait_for_rebuild()
                rebuilt = True
                group.cancel_scope.cancel()

            group.start_soon(restart_on_rebuild)
            manager = ManagerNotification(loaded.secrets)
            group.start_soon(manager.run, lambda: running.watch.heartbeat_at)
            if as_json:
                group.start_soon(
                    _print_events, running.application.bus, await running.application.journal.last()
                )
            if options["once"]:
                await running.watch.until_idle()
            else:
                group.start_soon(running.keep_schedule)
                await _wait_for_signal()
                ending.set()
                manager.send("STOPPING=1")
            group.cancel_scope.cancel()
    return rebuilt


@asynccontextmanager
async def _open_api(
    loaded: LoadedSettings, options: dict[str, object], folder: Path
) -> "AsyncIterator[Sequence[HttpRoute]]":
    """The routes of the API; none for a watch alone."""
    if not options.get("up"):
        yield ()
        return
    from hermes.app.web.server import open_api

    async with open_api(loaded, model=_chat_model(options), folder=folder) as routes:
        yield routes


def _chat_model(options: dict[str, object]) -> str:
    """Conversations use the configured model where incidents use none."""
    model = str(options["model"])
    return "" if model == "none" else model


async def _keep_gateway(loaded: LoadedSettings, model: str) -> None:
    """Chats beside the watch: whatever happens to them, the watch goes on."""
    from hermes.app.channels.gateway import keep_gateway

    pause_s = FIRST_GATEWAY_PAUSE_S
    while True:
        try:
            await keep_gateway(loaded, model, note)
            return
        except HermesError as error:
            note(f"the gateway ended: {error}; it starts again in {pause_s:.0f} s")
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_GATEWAY_PAUSE_S)


async def _report_unreachable_model(reachability: "ModelReachability") -> None:
    """Runs beside the watch: a server that does not answer must not delay the start."""
    if why := await reachability.connection_problem():
        note(f"{reachability.name}: {why}; until it answers, playbooks and checks only")


def _print_start(running: "RunningWatch", *, up: bool) -> None:
    """Raises `BrokenPipeError` where nobody reads it; a full disk below a log ends no watch."""
    try:
        _print_first_lines(running)
        if up and running.application.loaded.settings.web.dashboard:
            note("the dashboard is opened by a link: hermes web login")
    except BrokenPipeError:
        raise
    except OSError:
        return


def _print_first_lines(running: "RunningWatch") -> None:
    found = running.admitted
    probes = "1 probe" if len(found.probes) == 1 else f"{len(found.probes)} probes"
    echo(f"on call: {probes}, {running.responder_text}")
    echo(running.mode_text)
    cluster = running.application.loaded.settings.sre.kubernetes
    if cluster.watch:
        where = ", ".join(cluster.namespaces) or "all namespaces"
        name = cluster.context or cluster.kubeconfig
        note(f"cluster {name} ({where}): warnings and faults are read every {cluster.every:g} s")
    if found.found_now:
        note("no probes.yaml yet: these probes were discovered; `--discover --write` keeps them")
    if found.lacks:
        note(found.lacks)
    for each in found.missing:
        note(f"expected and not running: {each}")
    for question in found.questions:
        note(f"question: {question.text}")
    for each in running.application.tooling.problems:
        note(f"tool left out: {each}")
    for each in found.refused:
        note(f"probe left out: {each}")
    if running.address:
        note(f"alerts are received at {running.address}/alerts")


async def _wait_for_signal() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


async def _print_events(bus: object, after: int) -> None:
    from hermes.core.bus import Bus
    from hermes.core.events import encode_event
    from hermes.core.events.base import UnknownEvent

    assert isinstance(bus, Bus)
    async for recorded in bus.follow(after=after):
        if not isinstance(recorded.event, UnknownEvent):
            click.echo(encode_event(recorded.event).decode())


def _discover_services(loaded: LoadedSettings, options: dict[str, object], as_json: bool) -> None:
    """Discover once what to probe in the environment. Changes nothing there."""
    found = anyio.run(_run_discovery, loaded)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        print_discovery(found)
    if options["write"] or options["merge"]:
        path, found = probes_file(loaded), without_transient(found)
        merge, yes = bool(options["merge"]), bool(options["yes"])
        note(write_probes(path, found, merge=merge, yes=yes, home=loaded.home))


def probes_file(loaded: LoadedSettings, settings: ProbeSettings | None = None) -> Path:
    return loaded.home / (settings or ProbeSettings()).file


async def _run_discovery(loaded: LoadedSettings) -> DiscoveryResult:
    from hermes.app.tools.tooling import configured_environment

    async with configured_environment(loaded, Path.cwd()) as here:
        found = await discover_probes(here, http_timeout_s=1.0, failing_too=True)
        known = InventoryStore(loaded.home, here.target).load()
    missing = missing_probes(known, found.probes)
    return msgspec.structs.replace(found, probes=(*found.probes, *missing))


def without_transient(found: DiscoveryResult) -> DiscoveryResult:
    """Remove probes of services that may end at any time: the file would always expect them."""
    transient = [each for each in found.probes if PROVISIONAL_LABEL in each.labels]
    names = sorted({each.service for each in transient})
    notes = (f"{name} is left out: it has not run for long and may end" for name in names)
    kept = tuple(each for each in found.probes if each not in transient)
    return msgspec.structs.replace(found, probes=kept, notes=(*found.notes, *notes))


def print_discovery(found: DiscoveryResult) -> None:
    rows = [
        (probe.name, probe.kind, probe.what, probe.service, probe.labels.get(STATE_LABEL, "–"))
        for probe in found.probes
    ]
    print_table(
        ("probe", "kind", "what", "service", "now"), rows, empty="nothing to watch was found"
    )
    for each in found.notes:
        note(each)


def write_probes(
    path: Path, found: DiscoveryResult, *, merge: bool, yes: bool, home: Path | None = None
) -> str:
    """Write the probe file and return a summary. An edited file is replaced only after a yes."""
    earlier = load_probes(path, home)  # raises for a broken file before anything is written
    if earlier is None:
        return _write_file(
            path, render_probe_file(found), f"{len(found.probes)} probes are in {path}"
        )
    text = path.read_text()
    if merge:
        merged = merge_probes(text, found, live=True, file=str(path), home=home)
        added = len(parse_probes(merged, home=home)) - len(earlier)
        return _write_file(path, merged, f"{added} new probes were added to {path}")
    if is_unedited(text) or yes:
        return _write_file(
            path, render_probe_file(found), f"{len(found.probes)} probes are in {path}"
        )
    merged = merge_probes(text, found, live=False, file=str(path), home=home)
    question = f"{path} was edited. Replace it? With no, new probes are added as comments."
    if _confirm(question):
        return _write_file(
            path, render_probe_file(found), f"{len(found.probes)} probes are in {path}"
        )
    if merged == text:
        return f"{path} is unchanged: nothing new was found"
    return _write_file(path, merged, f"new probes were added as comments at the end of {path}")


def _confirm(question: str) -> bool:
    """Without a terminal the answer is no, which loses nothing."""
    try:
        return confirm(question)
    except click.UsageError:
        return False


def _write_file(path: Path, text: str, message: str) -> str:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, mode=PUBLIC_MODE)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return message
