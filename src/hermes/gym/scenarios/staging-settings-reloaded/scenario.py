"""Production was reloaded with the settings of staging: replies are well formed but wrong."""

import json

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
)
from hermes.gym.services.python_service import (
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
    start_unsupervised_script,
)
from hermes.gym.services.shell_scripts import served_by_unit, shell_history_script

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
import signal

items = []

def load(*_):
    global conf
    path = sys.argv[1]
    if "profile" in settings(path):
        path = f"{os.path.dirname(path)}/{settings(path)['profile']}.conf"
    conf = settings(path)
    items[:] = json.load(open(conf["data"]))
    log("INFO", %%reloaded%%.format(path=os.path.realpath(path)))

load()
signal.signal(signal.SIGHUP, load)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return (200, {"items": items}) if path == "/items" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    live, test = rng.pick(
        (("production", "staging"), ("prod", "stage"), ("live", "test"), ("main", "preprod"))
    )
    item, folder = rng.token(), f"/etc/{service}/{rng.pick(('conf.d', 'profiles', 'env'))}"
    current = f"{folder}/{rng.pick(('current', 'active'))}.conf"
    data = {name: f"{layout.data}/{name}.json" for name in (live, test)}

    def settings(name: str) -> HostFile:
        text = f"# {name}\nport{layout.sign}{layout.port}\ndata{layout.sign}{data[name]}\n"
        return HostFile(path=f"{folder}/{name}.conf", text=text)

    linked = rng.chance(0.5)
    files = (
        HostFile(
            path=layout.program,
            text=render_program(rng, SERVICE_PROGRAM, reloaded=rng.wording(TEXTS["reloaded"])),
        ),
        settings(live),
        settings(test),
        HostFile(path=current, text=f"profile{layout.sign}{live}\n"),
        HostFile(path=data[live], text=json.dumps([item, rng.word(), rng.word()])),
        HostFile(path=data[test], text=json.dumps([f"test-{rng.token(4)}", "dummy"])),
        *neighbour.files,
    )

    def choose(name: str) -> str:
        if linked:
            return f"ln -sfn {folder}/{name}.conf {current}"
        return f"sed -i 's|^profile{layout.sign}.*|profile{layout.sign}{name}|' {current}"

    serves = HttpCheck(
        name="the right items are served", port=layout.port, path="/items", contains=item
    )
    command = f"{PYTHON_COMMAND} {layout.program}"
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(
                    service_unit(
                        service, f"{command} {current}", more="ExecReload=/bin/kill -HUP $MAINPID"
                    ),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            served_by_unit(layout.unit, layout.port),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(rng),
            shell_history_script(rng, f"cd {folder}", choose(test), f"systemctl reload {service}"),
            f"{choose(test)} && systemctl reload {service}",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            *(
                UnchangedCheck(name=f"settings of {n}", path=f"{folder}/{n}.conf")
                for n in (live, test)
            ),
            UnchangedCheck(name="the data", path=layout.data),
            UnchangedCheck(name="its unit", path=f"/etc/systemd/system/{layout.unit}"),
        ),
        fault=FaultDescription(
            component=(current, service, folder),
            mechanism=(
                test,
                f"{test}.conf",
                "wrong profile",
                "wrong settings",
                "wrong environment",
            ),
            value=(test, f"{folder}/{test}.conf", data[test]),
        ),
        reference=(choose(live), f"systemctl reload {service}"),
        relief=(
            f"systemctl stop {service}",
            start_unsupervised_script(layout, command=f"{command} {folder}/{live}.conf"),
        ),
        shortcut=(
            f"sed -i 's|^data.*|data{layout.sign}{data[live]}|' {folder}/{test}.conf",
            f"systemctl reload {service}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="staging-settings-reloaded",
    group="change",
    summary="production runs on the settings of staging since the last reload",
    draw=draw,
)
