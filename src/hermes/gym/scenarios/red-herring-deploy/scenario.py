"""A release went out just before the errors began, but its upstream is the cause."""

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
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged, shell_history_script

TEXTS = texts(__file__)

STOCK_PROGRAM = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if conf["%%key%%"] != "%%right%%":
        return 503, {"error": f"%%key%% is {conf['%%key%%']}"}
    return 200, {"stock": 12}

serve(int(conf["port"]), answer)
"""

SHOP_PROGRAM = """\
conf = settings(sys.argv[1])

def stock():
    line = socket.create_connection(("127.0.0.1", int(conf["upstream_port"])), 2)
    with line:
        line.sendall(b"GET /stock HTTP/1.0\\r\\n\\r\\n")
        return int(line.recv(65536).split()[1])

def answer(path):
    if path == "/version":
        return 200, {"version": %%version%%}
    if path not in %%pages%%:
        return 404, {"error": "no such page"}
    try:
        status = stock()
    except OSError as error:
        status = error.strerror or "timed out"
    if status != 200:
        log("ERROR", %%upstream%%.format(upstream=conf["upstream"], status=status))
        return 502, {"error": "upstream"}
    return 200, {"order": conf["mark"]}

serve(int(conf["port"]), answer)
"""
MODE_SETTINGS = (
    ("mode", "live", "maintenance"),
    ("state", "open", "closed"),
    ("accept", "yes", "no"),
    ("role", "primary", "standby"),
    ("serving", "on", "drain"),
)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, upstream, other = rng.services(3)
    layout, upstream_layout, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, upstream),
        draw_neighbour(rng, other),
    )
    host, mark = rng.host(), rng.token()
    key, right, wrong = rng.pick(MODE_SETTINGS)
    major, minor = rng.number(2, 9), rng.number(1, 30)
    old, new = f"{major}.{minor}.{rng.number(0, 9)}", f"{major}.{minor + 1}.0"
    root = f"/srv/{service}-releases"
    current, words = f"{root}/current", rng.wording(TEXTS["upstream"])
    template = STOCK_PROGRAM.replace("%%key%%", key).replace("%%right%%", right)
    settings_file = upstream_layout.settings(
        port=upstream_layout.port, capacity=rng.number(5, 50), **{key: right}
    )

    def release(version: str, *pages: str) -> HostFile:
        text = render_program(rng, SHOP_PROGRAM, version=version, upstream=words, pages=pages)
        return HostFile(path=f"{root}/{version}/app.py", text=text)

    files = (
        HostFile(path=upstream_layout.program, text=render_program(rng, template)),
        settings_file,
        release(old, "/order"),
        release(new, "/order", "/v2/order"),
        HostFile(path=f"{current}/.keep"),
        layout.settings(
            port=layout.port, upstream=upstream, upstream_port=upstream_layout.port, mark=mark
        ),
        *neighbour.files,
    )
    # The first start of the unit creates the link: a host plan has no links.
    command = (
        f"/bin/sh -c 'test -L {current} || {{ rm -rf {current}; ln -s {root}/{new} {current}; }};"
        f" exec {PYTHON_COMMAND} {current}/app.py {layout.conf}'"
    )
    serves = HttpCheck(name="orders go through", port=layout.port, path="/v2/order", contains=mark)
    edit = upstream_layout.put(key, wrong)
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(
                    service_unit(upstream, upstream_layout.command),
                    service_unit(service, command, after=upstream_layout.unit),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(
            rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port, version=new
        ),
        healthy=(
            serves,
            HttpCheck(
                name="the new release is live", port=layout.port, path="/version", contains=new
            ),
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(
                rng,
                rng.wording(TEXTS["deploys"]).format(service=service, version=new),
                f"{upstream}: planned work, see the calendar",
            ),
            shell_history_script(rng, f"ls -l {root}", edit, f"systemctl restart {upstream}"),
            f"{edit} && systemctl restart {upstream}",
        ),
        cure=(FaultTrigger(restart=(upstream_layout.unit, layout.unit)),),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the releases and which is current", path=root),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the program of the upstream", path=upstream_layout.program),
            other_settings_unchanged("the other settings of the upstream", settings_file, key),
        ),
        fault=FaultDescription(
            component=(upstream, upstream_layout.conf, upstream_layout.unit),
            mechanism=(f"{key} is {wrong}", "503", "maintenance", "switched off", "not serving"),
            value=(f"{key}{upstream_layout.sign}{wrong}", f"{key}={wrong}", f"{key} is {wrong}"),
        ),
        reference=(upstream_layout.put(key, right), f"systemctl restart {upstream}"),
        relief=(f"systemctl restart {upstream}; systemctl restart {service}",),
        shortcut=(
            f"ln -sfn {root}/{old} {current} && systemctl restart {service}",
            f"{upstream_layout.put(key, right)}; systemctl restart {upstream}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/v2/order", "/version")),),
    )


SCENARIO = Scenario(
    name="red-herring-deploy",
    group="judgement",
    summary="a fresh release is blamed, but the service that it asks was switched off",
    draw=draw,
)
