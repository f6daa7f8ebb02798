"""The folder with the service's libraries was moved; Python looks for it at the old path."""

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
import %%module%%

conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"rate": %%module%%.rate(int(conf["level"])), "by": %%module%%.VERSION}

serve(int(conf["port"]), answer)
"""
MODULE_NAMES = (
    "ratebook",
    "taxtable",
    "pricing_rules",
    "geoindex",
    "fxrates",
    "discounts",
    "zonemap",
)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    module, level = rng.pick(MODULE_NAMES), rng.number(2, 50)
    factor, add = rng.number(3, 90), rng.number(100, 999)
    version, former = f"{rng.number(2, 9)}.{rng.number(0, 30)}", f"1.{rng.number(0, 30)}"
    home = rng.pick((f"/opt/{service}", f"/srv/{service}", f"/var/lib/{service}"))
    was = f"{home}/{rng.pick(('vendor', 'lib', 'site', 'libs'))}"
    now = f"{home}/{rng.pick(('vendored', 'third-party', 'deps', 'packages'))}/{rng.word()}"
    trap = f"{rng.pick(('/var/backups', '/root', '/srv/old'))}/{service}-libs-{former}"
    source = render_program(rng, SERVICE_PROGRAM.replace("%%module%%", module))
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, level=level),
        HostFile(path=f"{was}/{module}.py", text=_module_source(version, factor, add)),
        HostFile(path=f"{was}/{rng.word()}_extra.py", text="UNUSED = True\n"),
        HostFile(path=f"{trap}/{module}.py", text=_module_source(former, factor - 1, add)),
        *neighbour.files,
    )
    unit = service_unit(service, layout.command, more=f"Environment=PYTHONPATH={was}")
    unit_file = f"/etc/systemd/system/{layout.unit}"
    right = HttpCheck(
        name="the right rate",
        port=layout.port,
        path="/rate",
        contains=f'"rate": {level * factor + add},',
    )
    restart = f"systemctl daemon-reload; systemctl restart {service}"
    cause = rng.wording(TEXTS["causes"]).format(service=service)
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=files, units=(unit, neighbour.unit)),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            right,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(right,),
        inject=(
            change_log_script(rng, cause),
            f"mkdir -p {now.rpartition('/')[0]} && mv {was} {now} && systemctl restart {service}",
        ),
        cure=clean_restart_triggers(layout.unit, layout.port),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the libraries of an older release", path=trap),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="its settings", path=layout.conf),
        ),
        fault=FaultDescription(
            component=(module, "PYTHONPATH", was),
            mechanism=("ModuleNotFoundError", "No module named", "moved", "cannot import"),
            value=(was, now),
        ),
        reference=(f"sed -i 's|PYTHONPATH={was}|PYTHONPATH={now}|' {unit_file} && {restart}",),
        relief=(start_unsupervised_script(layout, before=f"PYTHONPATH={now}"),),
        shortcut=(
            f"mkdir -p {was}; printf 'VERSION = \"0\"\\ndef rate(level): return level\\n' "
            f"> {was}/{module}.py; systemctl restart {service}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/rate", "/health")),),
    )


def _module_source(version: str, factor: int, add: int) -> str:
    return f'VERSION = "{version}"\n\n\ndef rate(level):\n    return level * {factor} + {add}\n'


SCENARIO = Scenario(
    name="missing-module",
    group="process",
    summary="a library folder was moved away from PYTHONPATH; the import fails",
    draw=draw,
)
