"""The environment file lost a line that the service needs."""

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
try:
    port, *facts = [os.environ[name] for name in %%names%%]
except KeyError as error:
    fatal(%%missing%%.format(name=error.args[0]))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"facts": facts}

serve(int(port), answer)
"""

VARIABLE_NAMES = (
    "REGION", "CURRENCY", "WAREHOUSE", "TENANT", "QUEUE_NAME", "BUCKET", "REALM", "DEFAULT_LOCALE",
    "SHARD", "UPSTREAM_NAME", "MERCHANT_ID", "SITE_CODE",
)  # fmt: skip


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    prefix = rng.pick((f"{service.upper()}_", "APP_", "", f"{service[:3].upper()}_"))
    names = [f"{prefix}{name}" for name in rng.some(VARIABLE_NAMES, rng.number(3, 5))]
    port_name = f"{prefix}PORT"
    now = {name: f"{rng.word()}-{rng.token(5)}" for name in names}
    before = now | {name: f"{rng.word()}-{rng.token(5)}" for name in names[:2]}
    lost = rng.pick(names[:2])
    paths = ("/etc/default/{}", "/etc/sysconfig/{}", "/etc/{}/env", "/opt/{}/.env")
    path = rng.pick(paths).format(service)
    copies = rng.pick((f"/var/backups/{service}", f"/srv/copies/{service}", "/var/backups/env"))
    month = rng.number(2, 9)
    new, old = (
        f"{copies}/{service}.2026-{month:02}-14",
        f"{copies}/{service}.2026-{month - 1:02}-03",
    )
    missing = rng.wording(TEXTS["missing"])
    source = render_program(rng, SERVICE_PROGRAM, names=(port_name, *names), missing=missing)
    files = (
        HostFile(path=layout.program, text=source),
        HostFile(path=path, text=_environment_file(port_name, layout.port, now)),
        HostFile(path=new, text=_environment_file(port_name, layout.port, now)),
        HostFile(path=old, text=_environment_file(port_name, layout.port, before)),
        *neighbour.files,
    )
    command = f"{PYTHON_COMMAND} {layout.program}"
    unit = service_unit(service, command, more=f"EnvironmentFile={path}")
    facts = [
        HttpCheck(name=f"{name} is in use", port=layout.port, path="/facts", contains=value)
        for name, value in now.items()
    ]
    given = " ".join(f"{name}={value}" for name, value in now.items())
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=files, units=(unit, neighbour.unit)),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            *facts,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=tuple(facts),
        inject=(
            change_log_script(
                rng, rng.wording(TEXTS["causes"]).format(service=service, copies=copies)
            ),
            f"sed -i '/^{lost}=/d' {path} && systemctl restart {service}",
        ),
        cure=clean_restart_triggers(layout.unit, layout.port),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the copies", path=copies),
            UnchangedCheck(name="the program", path=layout.program),
        ),
        fault=FaultDescription(
            component=(path, "EnvironmentFile"),
            mechanism=("missing", "not set", "unset", "undefined", "removed"),
            value=(lost,),
        ),
        reference=(f"grep '^{lost}=' {new} >> {path} && systemctl restart {service}",),
        relief=(
            start_unsupervised_script(
                layout, before=f"{port_name}={layout.port} {given}", command=command
            ),
        ),
        shortcut=(f"cp {old} {path}; systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/facts", "/health")),),
    )


def _environment_file(port_name: str, port: int, values: dict[str, str]) -> str:
    every = {port_name: f"{port}", **values}
    return "".join(f"{name}={value}\n" for name, value in every.items())


SCENARIO = Scenario(
    name="missing-variable",
    group="process",
    summary="a variable is gone from the environment file; the service refuses to start",
    draw=draw,
)
