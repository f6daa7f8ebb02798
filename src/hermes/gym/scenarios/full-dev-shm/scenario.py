"""A job keeps its buffers in shared memory, and another program finds no space there."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    PYTHON_COMMAND,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import other_settings_unchanged, shell_history_script

TEXTS = texts(__file__)

RENDER_PROGRAM = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def render():
    path = f"/dev/shm/{conf['prefix']}-{os.getpid()}-{next(numbers)}"
    try:
        with open(path, "wb") as file:
            file.write(b"p" * (3 << 20))
        return 200, {"picture": conf["mark"], "size": os.path.getsize(path)}
    except OSError as error:
        log("ERROR", %%full%%.format(path=path, error=error.strerror))
        return 500, {"error": "render failed"}
    finally:
        os.unlink(path)

def answer(path):
    if path == "/render":
        return render()
    return (200, {"status": "ok"}) if path == "/health" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""

FRAMES_PROGRAM = """\
conf = settings(sys.argv[1])
os.dup2(os.open(conf["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644), 1)
count = int(conf["frames"])
for number in range(count):
    path = f"/dev/shm/{conf['prefix']}-{os.getpid()}-{number:03d}"
    for attempt in range(20):  # others need some for a moment
        try:
            with open(path, "wb") as file:
                file.write(b"f" * (1 << 20))
            break
        except OSError as error:
            why = error.strerror
            time.sleep(0.05)
    else:
        fatal(%%full%%.format(path=path, error=why))
    if conf["%%key%%"] != "yes":
        os.unlink(path)
if conf["%%key%%"] == "yes":
    log("INFO", %%kept%%.format(count=count))
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other, job = rng.services(3)
    layout, neighbour, batch = (
        draw_layout(rng, service),
        draw_neighbour(rng, other),
        draw_layout(rng, job),
    )
    host, mark = rng.host(), rng.token()
    key = rng.pick(("keep_frames", "retain_segments", "debug_keep", "keep_buffers", "preserve"))
    prefix, log = f"{job}-{rng.word()}", f"/var/log/{job}.log"
    full = rng.wording(TEXTS["full"])
    run = f"{PYTHON_COMMAND} {batch.program} {batch.conf}"
    settings_file = batch.settings(frames=13, prefix=prefix, log=log, **{key: "no"})
    live = HostFile(path=f"/dev/shm/{other}-{rng.word()}", text=rng.token(40) * 4000)
    files = (
        HostFile(path=layout.program, text=render_program(rng, RENDER_PROGRAM, full=full)),
        layout.settings(port=layout.port, prefix=service, mark=mark),
        HostFile(
            path=batch.program,
            text=render_program(
                rng,
                FRAMES_PROGRAM.replace("%%key%%", key),
                full=full,
                kept=rng.wording(TEXTS["kept"]),
            ),
        ),
        settings_file,
        HostFile(path=f"/etc/cron.d/{job}", text=f"{rng.number(0, 59)} * * * * root {run}\n"),
        live,
        *neighbour.files,
    )
    renders = HttpCheck(name="pictures come", port=layout.port, path="/render", contains=mark)
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(
            renders,
            ScriptCheck(
                name="most of the shared memory is free",
                script="test $(df -m --output=avail /dev/shm | tail -n 1) -ge 9",
            ),
            neighbour.answers,
        ),
        symptoms=(renders,),
        inject=(
            shell_history_script(rng, f"vi {batch.conf}", run),
            f"{batch.put(key, 'yes')} && {run}",
        ),
        cure=(FaultTrigger(cron=batch.program),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            UnchangedCheck(name="the shared memory of another", path=live.path),
            UnchangedCheck(name="its settings", path=layout.conf),
            UnchangedCheck(name="the timetable", path="/etc/cron.d"),
            UnchangedCheck(name="the program of the job", path=batch.program),
            other_settings_unchanged("the job does as much as before", settings_file, key),
        ),
        fault=FaultDescription(
            component=("/dev/shm", job, batch.conf, prefix),
            mechanism=("shared memory", "/dev/shm", "no space left", "not removed", "left behind"),
            value=(key, prefix, f"{key}{batch.sign}yes"),
        ),
        reference=(batch.put(key, "no"), f"rm -f /dev/shm/{prefix}-*"),
        relief=(f"rm -f /dev/shm/{prefix}-*",),
        shortcut=(batch.put(key, "no"), "rm -rf /dev/shm/*"),
        traffic=(TrafficSpec(port=layout.port, paths=("/render", "/health")),),
    )


SCENARIO = Scenario(
    name="full-dev-shm",
    group="limits",
    summary="a job that keeps its buffers fills the shared memory that another service needs",
    draw=draw,
)
