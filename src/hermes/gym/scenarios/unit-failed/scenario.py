"""A folder that the service must write to got another owner: the unit fails after a few starts."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SEVERAL_USERS, Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    HostFile,
    HostFolder,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    ServiceLayout,
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
SERVICE_UID = 1001

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
notes = f"{conf['state']}/{%%file%%}"

def write(text):
    with open(fresh := f"{notes}.{threading.get_ident()}", "w") as file:
        file.write(f"{time.time():.3f} {text}\\n")
    os.replace(fresh, notes)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        write(path)
    except OSError as error:
        return 500, {"error": error.strerror}
    return 200, {"noted": path}

try:
    write("start")
except OSError as error:
    fatal(%%denied%%.format(path=notes, error=error.strerror))
serve(int(conf["port"]), answer)
"""


def _privileges_kept_script(layout: ServiceLayout, state: str) -> str:
    """Nothing is writable by everybody, and the service does not run as root.

    The brackets in the pattern keep the script from finding itself.
    """
    pattern = f"[{layout.program[0]}]{layout.program[1:]}"
    return (
        f'test -z "$(find {state} -perm -o+w)" || exit 1; '
        f"for each in $(grep -ls '{pattern}' /proc/[0-9]*/cmdline); do "
        f'test "$(stat -c %u "${{each%/cmdline}}" 2>/dev/null || echo {SERVICE_UID})" '
        f"= {SERVICE_UID} || exit 1; "
        "done"
    )


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    user = rng.pick((service, "app", "svc", f"{service}-run", "www-data"))
    state = rng.pick(("/var/cache/{}", "/var/lib/{}-state", "/srv/{}-work", "/var/spool/{}"))
    state = state.format(service)
    denied = rng.wording(TEXTS["denied"])
    source = render_program(
        rng, SERVICE_PROGRAM, file=rng.pick(("notes.dat", "state.log", "index")), denied=denied
    )
    owner, mode = rng.pick(
        (("root:root", "755"), ("root:root", "700"), ("nobody:nogroup", "750"), ("0:0", "750"))
    )
    files = (
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, state=state),
        HostFile(path=f"{state}/kept.dat", text=rng.token(40), owner=SERVICE_UID),
        *neighbour.files,
    )
    more = "StartLimitBurst=3\nStartLimitIntervalSec=60"
    unit = service_unit(service, layout.command, user=user, more=more)
    notes = HttpCheck(
        name="what users do is noted", port=layout.port, path="/note", contains="noted"
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(HostFolder(path=state, mode=0o750, owner=SERVICE_UID),),
                units=(unit, neighbour.unit),
                users=(user, "backup"),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            notes,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(notes,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["causes"]).format(service=service)),
            f"chown {owner} {state} && chmod {mode} {state} && systemctl restart {service}",
        ),
        cure=clean_restart_triggers(layout.unit, layout.port),
        collateral=(
            *neighbour.unharmed,
            ScriptCheck(
                name="it keeps to its own user", script=_privileges_kept_script(layout, state)
            ),
            UnchangedCheck(name="what was in the folder", path=f"{state}/kept.dat"),
            UnchangedCheck(name="its unit", path=f"/etc/systemd/system/{layout.unit}"),
            UnchangedCheck(name="the program", path=layout.program),
        ),
        fault=FaultDescription(
            component=(state,),
            mechanism=("permission", "ownership", "owner", "not writable"),
            value=(owner, "nobody" if "nobody" in owner else "root"),
        ),
        reference=(
            f"chown {user}:{user} {state} && chmod 750 {state}",
            f"systemctl reset-failed {service}; systemctl start {service}",
        ),
        relief=(start_unsupervised_script(layout),),
        shortcut=(f"chmod -R 777 {state}; systemctl restart {service}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/note", "/health")),),
    )


SCENARIO = Scenario(
    name="unit-failed",
    group="classic",
    summary="a folder with the wrong owner keeps a unit failed, its start limit hit",
    draw=draw,
    needs=(SEVERAL_USERS,),
)
