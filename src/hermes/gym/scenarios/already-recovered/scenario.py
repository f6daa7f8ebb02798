"""The alert is about a short problem of the environment that is already over."""

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    HostDisk,
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
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import requests_script

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def fetch():
    line = socket.create_connection(("127.0.0.1", int(conf["source_port"])), 0.3)
    with line:
        line.settimeout(0.3)
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        if b" 200 " not in line.recv(65536):
            raise OSError("bad answer")

def note():
    path = f"{conf['scratch']}/{next(numbers)}.part"
    try:
        with open(path, "wb") as file:
            file.write(b"n" * (1 << 18))
    finally:
        os.unlink(path)

def answer(path):
    if path != "/sum":
        return 200, {"status": "ok"}
    try:
        fetch()
    except OSError as error:
        log("ERROR", %%failed%%.format(why=f"{conf['source']}: {error}"))
        return 502, {"error": "source"}
    try:
        note()
    except OSError as error:
        log("ERROR", %%failed%%.format(why=f"{conf['scratch']}: {error.strerror}"))
        return 500, {"error": "scratch"}
    return 200, {"sum": conf["mark"]}

serve(int(conf["port"]), answer)
"""


class TransientFault(Value, kw_only=True, frozen=True):
    begin: str
    end: str
    component: tuple[str, ...]
    mechanism: tuple[str, ...]
    value: tuple[str, ...]


def draw(rng: RandomSource) -> ScenarioSpec:
    service, source, other = rng.services(3)
    layout, upstream, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, source),
        draw_neighbour(rng, other),
    )
    host, mark, item = rng.host(), rng.token(), rng.token()
    disk = rng.pick(("/scratch", "/var/tmp/jobs", "/mnt/scratch", "/srv/tmp"))
    export = f"{disk}/{rng.word()}-export.{rng.pick(('csv', 'tar', 'dump'))}"
    pid = f"$(systemctl show -p MainPID --value {source})"
    outage = rng.pick(
        (
            TransientFault(
                begin=f"kill -STOP {pid}",
                end=f"kill -CONT {pid}",
                component=(source, upstream.unit),
                mechanism=("timed out", "timeout", "stalled", "did not answer", "hung"),
                value=(source, "timed out"),
            ),
            TransientFault(
                begin=f"head -c 60000000 /dev/zero > {export} 2>/dev/null || true",
                end=f"rm {export}",
                component=(disk, export),
                mechanism=("no space left", "disk full", "full"),
                value=(disk, "No space left on device", export),
            ),
        )
    )
    items_file = f"{upstream.data}/items.json"
    files = (
        HostFile(path=upstream.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
        upstream.settings(port=upstream.port, data=items_file),
        HostFile(path=items_file, text=f'["{item}"]'),
        HostFile(
            path=layout.program,
            text=render_program(rng, SERVICE_PROGRAM, failed=rng.wording(TEXTS["failed"])),
        ),
        layout.settings(
            port=layout.port, source=source, source_port=upstream.port, scratch=disk, mark=mark
        ),
        *neighbour.files,
    )
    serves = HttpCheck(name="sums come", port=layout.port, path="/sum", contains=mark)
    facts = {"service": service, "host": host, "port": layout.port}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                disks=(HostDisk(disk, rng.number(8, 20)),),
                units=(
                    service_unit(source, upstream.command),
                    service_unit(service, layout.command, after=upstream.unit),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(
            rng,
            TEXTS["alerts"],
            "P1",
            share=rng.number(12, 70),
            count=rng.number(20, 400),
            **facts,
        ),
        healthy=(serves, neighbour.answers),
        symptoms=(serves,),
        inject=(
            change_log_script(rng),
            outage.begin,
            requests_script(layout.port, "/sum", rng.number(2, 3)),
            outage.end,
            requests_script(layout.port, "/sum", rng.number(4, 8)),
        ),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the service was left alone", unit=layout.unit, undisturbed=True),
            UnitRunningCheck(
                name="its source was left alone", unit=upstream.unit, undisturbed=True
            ),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the settings of its source", path=upstream.conf),
            UnchangedCheck(name="the data of its source", path=upstream.data),
            UnchangedCheck(name="all other settings", path="/etc"),
        ),
        fault=FaultDescription(
            component=outage.component, mechanism=outage.mechanism, value=outage.value
        ),
        answer="recovered",
        relief=(f"systemctl restart {source}",),
        shortcut=(f"systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/sum", "/health")),),
    )


SCENARIO = Scenario(
    name="already-recovered",
    group="judgement",
    summary="a short trouble that was over before the alert was read",
    draw=draw,
)
