"""The monitor alerts because its own limit is wrong; the host and its services are healthy."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
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

TEXTS = texts(__file__)

MONITOR_PROGRAM = """\
conf = settings(sys.argv[1])

def disk():
    found = os.statvfs(conf["path"])
    return round(100 * (1 - found.f_bavail / found.f_blocks), 1)

def latency():
    began = time.monotonic()
    socket.create_connection(("127.0.0.1", int(conf["port"])), 2).close()
    return round((time.monotonic() - began) * 1000 + 1, 1)

def files():
    return len(os.listdir(conf["path"]))

look = {"disk": disk, "latency": latency, "files": files}[conf["kind"]]
while True:
    try:
        value = look()
    except OSError as error:
        log("ERROR", str(error))
        value = 0
    if value > float(conf["%%key%%"]):
        log("WARN", %%firing%%.format(what=conf["what"], value=value, limit=conf["%%key%%"]))
    time.sleep(1)
"""
METRIC_KINDS = {
    "disk": ("disk usage in percent", "0"),
    "latency": ("latency in milliseconds", "0.9"),
    "files": ("number of files", "2"),
}
"""The metric, and a limit that every host exceeds."""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other, watch = rng.services(3)
    layout, neighbour, monitor = (
        draw_layout(rng, service),
        draw_neighbour(rng, other),
        draw_layout(rng, watch),
    )
    host, item = rng.host(), rng.token()
    kind = rng.pick(tuple(METRIC_KINDS))
    what, limit = METRIC_KINDS[kind]
    key = rng.pick(("max", "threshold", "limit", "critical", "alarm_above"))
    data = tuple(
        HostFile(path=f"{layout.data}/{name}", text=rng.token(400))
        for name in ("a.dat", "b.dat", "c.dat", "d.dat")
    )
    settings_file = monitor.settings(
        kind=kind, what=what, path=layout.data, port=layout.port, **{key: limit}
    )
    files = (
        HostFile(path=layout.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
        layout.settings(port=layout.port, data=f"{layout.data}/items.json"),
        HostFile(path=f"{layout.data}/items.json", text=f'["{item}"]'),
        *data,
        HostFile(
            path=monitor.program,
            text=render_program(
                rng, MONITOR_PROGRAM.replace("%%key%%", key), firing=rng.wording(TEXTS["firing"])
            ),
        ),
        settings_file,
        *neighbour.files,
    )
    serves = HttpCheck(name="the items are served", port=layout.port, path="/items", contains=item)
    value = {"disk": "0.3", "latency": "1.1", "files": f"{len(data) + 1}"}[kind]
    facts = {"service": service, "host": host, "port": layout.port, "limit": limit}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(
                    service_unit(service, layout.command),
                    service_unit(watch, monitor.command),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", what=what, value=value, **facts),
        healthy=(serves, neighbour.answers),
        symptoms=(serves,),
        inject=(change_log_script(rng, f"new checks for {service} in {watch}"),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the service was left alone", unit=layout.unit, undisturbed=True),
            UnitRunningCheck(
                name="the monitor was left alone", unit=monitor.unit, undisturbed=True
            ),
            UnchangedCheck(name="the data", path=layout.data),
            UnchangedCheck(name="all settings", path="/etc"),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the settings of the monitor", path=monitor.conf),
            UnchangedCheck(name="the programs", path="/opt"),
        ),
        fault=FaultDescription(
            component=(monitor.conf, watch, monitor.unit),
            mechanism=("threshold", "false alarm", "limit", "too low", "wrong limit"),
            value=(key, f"{key}{monitor.sign}{limit}"),
        ),
        answer="no-incident",
        relief=(monitor.put(key, "99999"), f"systemctl restart {watch}"),
        shortcut=(f"systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="false-alarm",
    group="judgement",
    summary="the limit of a check is wrong; nothing else is",
    draw=draw,
)
