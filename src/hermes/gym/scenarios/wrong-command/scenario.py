"""A deployment restored an old unit file: it starts the program at a path from two releases ago."""

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
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
    start_unsupervised_script,
)
from hermes.gym.services.shell_scripts import clean_restart_triggers

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"release": %%release%%, "name": conf["name"]}

serve(int(conf["port"]), answer)
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    major, minor = rng.number(1, 6), rng.number(3, 20)
    current, former = f"{major}.{minor}.{rng.number(0, 9)}", f"{major}.{minor - 1}.0"
    gone = f"{major}.{minor - 2}.{rng.number(0, 9)}"
    root = rng.pick((f"/opt/{service}-app", f"/srv/{service}/code", f"/var/www/{service}"))
    shape = rng.pick(("releases/{}/server.py", "{}/bin/main.py", "v{}/app.py", "rel-{}/run.py"))
    inner = f"{root}/{shape.format(current)}"
    older = f"{root}/{shape.format(former)}"
    wrong = rng.pick((f"{root}/{shape.format(gone)}", f"{root}/{inner.rpartition('/')[2]}"))
    title = rng.token()
    files = (
        HostFile(path=inner, text=render_program(rng, SERVICE_PROGRAM, release=current)),
        HostFile(path=older, text=render_program(rng, SERVICE_PROGRAM, release=former)),
        layout.settings(port=layout.port, name=title),
        HostFile(path=f"{root}/DEPLOYED", text=_deploy_history(rng, gone, former, current)),
        *neighbour.files,
    )
    unit = service_unit(service, f"{PYTHON_COMMAND} {inner} {layout.conf}")
    unit_file = f"/etc/systemd/system/{layout.unit}"
    serves = HttpCheck(name="the release in use", port=layout.port, path="/about", contains=current)
    named = HttpCheck(name="its name", port=layout.port, path="/about", contains=title)
    restart = f"systemctl daemon-reload; systemctl restart {service}"
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=files, units=(unit, neighbour.unit)),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            named,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(serves, named),
        inject=(
            change_log_script(
                rng, rng.wording(TEXTS["causes"]).format(service=service, current=current)
            ),
            f"sed -i 's|{inner}|{wrong}|' {unit_file} && {restart}",
        ),
        cure=clean_restart_triggers(layout.unit, layout.port),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the releases", path=root),
            UnchangedCheck(name="its settings", path=layout.conf),
        ),
        fault=FaultDescription(
            component=(unit_file, layout.unit, "ExecStart"),
            mechanism=("wrong path", "does not exist", "no such file", "old path", "stale path"),
            value=(wrong, inner),
        ),
        reference=(f"sed -i 's|{wrong}|{inner}|' {unit_file} && {restart}",),
        relief=(
            start_unsupervised_script(layout, command=f"{PYTHON_COMMAND} {inner} {layout.conf}"),
        ),
        shortcut=(f"sed -i 's|{wrong}|{older}|' {unit_file} && {restart}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/about", "/health")),),
    )


def _deploy_history(rng: RandomSource, *releases: str) -> str:
    """The log of a deployment tool, newest line last."""
    lines = [
        rng.wording(TEXTS["deployed"]).format(release=release, who=rng.word())
        for release in releases
    ]
    return "\n".join(lines) + "\n"


SCENARIO = Scenario(
    name="wrong-command",
    group="process",
    summary="ExecStart names a path that is gone since a deploy",
    draw=draw,
)
