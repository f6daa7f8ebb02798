"""A leftover program starts first and takes the port of the service."""

import json

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)

TEXTS = texts(__file__)

STRAY_PROGRAM = """\
listener = listen(int(sys.argv[1]))
if %%alone%% and os.fork():
    os._exit(0)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 410, {"error": %%gone%%}

serve(0, answer, listener)
"""


class StrayStarter(Value, kw_only=True, frozen=True):
    """What starts the stray program, and the commands that start it again or remove it."""

    files: tuple[HostFile, ...]
    begin: str
    end: str
    forget: str
    again: tuple[FaultTrigger, ...]
    named: tuple[str, ...]


def _started_by_cron(name: str, program_file: HostFile, port: int) -> StrayStarter:
    table, path = f"/etc/cron.d/{name}", program_file.path
    command = f"{PYTHON_COMMAND} {path} {port} >> /var/log/{name}.log 2>&1"
    pids = f"$(grep -ls '[{path[0]}]{path[1:]}' /proc/[0-9]*/cmdline | cut -d/ -f3)"
    return StrayStarter(
        files=(program_file,),
        begin=f"echo '* * * * * root {command}' > {table}; {command}",
        end=f"kill {pids}",
        forget=f"rm {table}",
        again=(FaultTrigger(cron=name),),
        named=(table, name, "cron"),
    )


def _started_by_unit(name: str, program_file: HostFile, port: int) -> StrayStarter:
    unit = service_unit(name, f"{PYTHON_COMMAND} {program_file.path} {port}")
    unit_file = f"/etc/systemd/system/{name}.service"
    waits = (
        f"systemctl is-enabled -q {name} && systemctl restart {name} && for i in $(seq 100); do "
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.02; done; true"
    )
    return StrayStarter(
        files=(program_file, HostFile(path=unit_file, text=unit.text)),
        begin=f"systemctl daemon-reload; systemctl enable {name}; {waits}",
        end=f"systemctl stop {name}",
        forget=f"systemctl disable {name}",
        again=(FaultTrigger(script=waits),),
        named=(f"{name}.service", name),
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    item, by_cron = rng.token(), rng.chance(0.5)
    shape = rng.pick(("{}-old", "{}-legacy", "old-{}", "{}-preview", "{}-tmp", "migrate-{}"))
    stray = shape.format(service)
    path = rng.pick(("/opt/{n}/run.py", "/home/www/{n}.py", "/root/{n}/server.py", "/srv/{n}.py"))
    source = render_program(rng, STRAY_PROGRAM, alone=by_cron, gone=rng.wording(TEXTS["gone"]))
    program_file = HostFile(path=path.format(n=stray), text=source)
    left = (_started_by_cron if by_cron else _started_by_unit)(stray, program_file, layout.port)
    items_file = f"{layout.data}/items.json"
    files = (
        HostFile(path=layout.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
        layout.settings(port=layout.port, data=items_file),
        HostFile(path=items_file, text=json.dumps([item, rng.word()])),
        HostFile(path="/etc/cron.d/housekeeping", text="7 3 * * 0 root /bin/true\n"),
        *left.files,
        *neighbour.files,
    )
    serves = HttpCheck(
        name="the right items are served", port=layout.port, path="/items", contains=item
    )
    stop, start = f"systemctl stop {service}", f"systemctl restart {service}"
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["causes"]).format(service=service)),
            f"{stop}; {left.begin}; {start}",
        ),
        cure=(FaultTrigger(script=stop), *left.again, FaultTrigger(restart=(layout.unit,))),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="its data", path=layout.data),
            UnchangedCheck(name="its settings", path=layout.conf),
            UnchangedCheck(name="the other job", path="/etc/cron.d/housekeeping"),
        ),
        fault=FaultDescription(
            component=(*left.named, program_file.path),
            mechanism=(
                "address already in use",
                "port in use",
                "port taken",
                "occupied",
                "holds the port",
            ),
            value=(program_file.path, stray),
        ),
        reference=(f"{left.forget}; {left.end}; {start}",),
        relief=(f"{left.end}; {start}",),
        shortcut=(
            f"{left.forget}; kill -9 $(grep -ls '[p]ython3' /proc/[0-9]*/cmdline | cut -d/ -f3); "
            f"sleep 0.1; {start}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="port-taken",
    group="process",
    summary="a leftover job or unit starts a stray process that holds the service's port",
    draw=draw,
)
