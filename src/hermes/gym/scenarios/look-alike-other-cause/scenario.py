"""The error is about missing space, as with a full disk; the cause is a limit of the service."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostDisk,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.scenarios.combine import add_decoy
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged, shell_history_script

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def put():
    name = f"new-{next(numbers)}.rec"
    sizes = [entry.stat().st_size for entry in os.scandir(conf["store"])]
    used, most = round(sum(sizes) / (1 << 20), 1), float(conf["%%key%%"])
    if used >= most:
        log("ERROR", %%full%%.format(name=name, used=used, most=conf["%%key%%"]))
        return 507, {"error": "no space left"}
    with open(f"{conf['incoming']}/{name}", "w") as file:
        file.write(conf["mark"])
    os.unlink(file.name)
    return 200, {"stored": conf["mark"]}

def answer(path):
    if path == "/put":
        return put()
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    disk, mark = rng.pick(("/data", "/srv/store", "/mnt/vol", "/var/store")), rng.token()
    key = rng.pick(("quota_mb", "max_store_mb", "ceiling_mb", "store_limit_mb", "budget_mb"))
    right, wrong = rng.number(500, 4000), rng.pick((1, 2))
    store, big = f"{disk}/{service}", f"/var/log/{service}-access.log"
    incoming = f"{disk}/incoming"
    settings_file = layout.settings(
        port=layout.port, store=store, incoming=incoming, mark=mark, **{key: right}
    )
    files = (
        HostFile(
            path=layout.program,
            text=render_program(
                rng, SERVICE_PROGRAM.replace("%%key%%", key), full=rng.wording(TEXTS["full"])
            ),
        ),
        settings_file,
        *(
            HostFile(path=f"{store}/{rng.token()}.rec", text=rng.token(64) * 12_000)
            for _ in range(rng.number(4, 6))
        ),
        HostFile(path=big, text=f"GET /put {rng.token()}\n" * 40_000),
        *neighbour.files,
    )
    stores = HttpCheck(name="entries are stored", port=layout.port, path="/put", contains=mark)
    spec = ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(incoming,),
                disks=(HostDisk(disk, rng.number(30, 60)),),
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            stores,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(stores,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"vi {layout.conf}", f"systemctl restart {service}"),
            f"{layout.put(key, wrong)} && systemctl restart {service}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="what is stored", path=store),
            UnchangedCheck(name="its log", path=big, may_grow=True),
            UnchangedCheck(name="the program", path=layout.program),
            other_settings_unchanged("its other settings", settings_file, key),
        ),
        fault=FaultDescription(
            component=(layout.conf, service, layout.conf.rpartition("/")[2]),
            mechanism=("quota", "ceiling", "own limit", "limit", key),
            value=(f"{key}{layout.sign}{wrong}", f"{key}={wrong}", key),
        ),
        reference=(layout.put(key, right), f"systemctl restart {service}"),
        relief=(f"find /var/tmp /tmp -type f -delete; systemctl restart {service}",),
        shortcut=(f": > {big}; rm -f {store}/*.rec",),
        traffic=(TrafficSpec(port=layout.port, paths=("/put", "/health")),),
    )
    return add_decoy(spec, rng, TEXTS["decoys"])


SCENARIO = Scenario(
    name="look-alike-other-cause",
    group="judgement",
    summary="looks like a full disk; it is the ceiling that the service sets itself",
    draw=draw,
)
