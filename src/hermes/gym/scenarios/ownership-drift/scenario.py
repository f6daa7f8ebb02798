"""A cleanup job gives the spool to the wrong user: the service can no longer write to it."""

from hermes.gym.episodes.episode import FIRST_UID
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SEVERAL_USERS, Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
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
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged

TEXTS = texts(__file__)

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def put():
    path = f"{conf['spool']}/{os.getpid()}-{next(numbers)}.part"
    try:
        with open(path, "w") as file:
            file.write(conf["mark"])
        os.unlink(path)
        return 200, {"stored": conf["mark"]}
    except OSError as error:
        log("ERROR", %%denied%%.format(path=path, error=error.strerror))
        return 500, {"error": "not stored"}

def answer(path):
    if path == "/put":
        return put()
    return (200, {"status": "ok"}) if path == "/health" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""

CLEANUP_SCRIPT = """\
#!/bin/bash
# Old parts go, what is left belongs to the owner that {conf} names.
owner=$(sed -n 's/^owner=//p' {conf})
days=$(sed -n 's/^days=//p' {conf})
find {spool} -name '*.part' -mtime +"$days" -delete
chown -R "$owner:$owner" {spool}
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    owner, wrong = rng.some(("www", "svc", "app", "intake", "runner", "daemon"), 2)
    wrong = rng.pick((wrong, "root"))
    mark, spool = rng.token(), f"/var/spool/{service}-{rng.word()}"
    cleanup = f"/opt/{rng.pick(('ops', 'scripts', 'maintenance'))}/tidy-{service}"
    settings_file = HostFile(
        path=f"{cleanup}.conf", text=f"owner={owner}\ndays={rng.number(3, 30)}\n"
    )
    users = (owner, wrong) if wrong != "root" else (owner,)
    archive = f"{layout.data}/archive"
    files = (
        HostFile(
            path=layout.program,
            text=render_program(rng, SERVICE_PROGRAM, denied=rng.wording(TEXTS["denied"])),
        ),
        layout.settings(port=layout.port, spool=spool, mark=mark),
        HostFile(
            path=f"{cleanup}.sh",
            text=CLEANUP_SCRIPT.format(conf=settings_file.path, spool=spool),
            mode=0o755,
        ),
        settings_file,
        HostFile(path=f"/etc/cron.d/tidy-{service}", text=f"15 * * * * root {cleanup}.sh\n"),
        HostFile(path=f"{archive}/{rng.token()}.rec", text=rng.token(30), owner=FIRST_UID),
        *neighbour.files,
    )
    stores = HttpCheck(name="entries are stored", port=layout.port, path="/put", contains=mark)
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                users=users,
                files=files,
                folders=(HostFolder(path=spool, mode=0o750, owner=FIRST_UID),),
                units=(service_unit(service, layout.command, user=owner), neighbour.unit),
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
            change_log_script(rng, f"tidy job of {rng.word()} reviewed"),
            f"sed -i 's/^owner=.*/owner={wrong}/' {settings_file.path} && {cleanup}.sh",
        ),
        cure=(FaultTrigger(cron=cleanup), FaultTrigger(restart=(layout.unit,))),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the archive", path=archive),
            UnchangedCheck(name="its settings", path=layout.conf),
            UnchangedCheck(name="its unit", path=f"/etc/systemd/system/{layout.unit}"),
            UnchangedCheck(name="the timetable", path="/etc/cron.d"),
            UnchangedCheck(name="the tidy job", path=f"{cleanup}.sh"),
            other_settings_unchanged("the other settings of the tidy job", settings_file, "owner"),
            ScriptCheck(
                name="the spool is not open to everybody",
                script=f'test -z "$(find {spool} -perm /o=w)"',
            ),
        ),
        fault=FaultDescription(
            component=(spool, settings_file.path, f"{cleanup}.sh", service),
            mechanism=("owner", "ownership", "chown", "permission denied", "permissions"),
            value=(wrong, f"owner={wrong}"),
        ),
        reference=(
            f"sed -i 's/^owner=.*/owner={owner}/' {settings_file.path}",
            f"chown -R {owner}:{owner} {spool}",
        ),
        relief=(f"chown -R {owner}:{owner} {spool}",),
        shortcut=(f"chmod -R 777 {spool}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/put", "/health")),),
    )


SCENARIO = Scenario(
    name="ownership-drift",
    group="files",
    summary="a tidy job gives the spool to another user, and the service cannot write to it",
    draw=draw,
    needs=(SEVERAL_USERS,),
)
