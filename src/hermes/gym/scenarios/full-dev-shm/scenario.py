"""A job keeps its buffers in shared memory, and another program finds no space there."""

from hermes.gym.scenario_builder import (
    HostFile,
    ScenarioBuilder,
    ScriptCheck,
    build_scenario,
    other_settings_unchanged,
)

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


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, job = build.draw_services(2, neighbour_at=1)
    mark = rng.token()
    key = rng.pick(("keep_frames", "retain_segments", "debug_keep", "keep_buffers", "preserve"))
    prefix, log = f"{job.name}-{rng.word()}", f"/var/log/{job.name}.log"
    full, other = build.wording("full"), build.neighbour.layout.name
    live = HostFile(path=f"/dev/shm/{other}-{rng.word()}", text=rng.token(40) * 4000)
    build.start(app, RENDER_PROGRAM, full=full)
    build.settings(app, port=app.port, prefix=app.name, mark=mark)
    frames = FRAMES_PROGRAM.replace("%%key%%", key)
    build.program(job, frames, full=full, kept=build.wording("kept"))
    conf = build.settings(job, frames=13, prefix=prefix, log=log, **{key: "no"})
    build.file(f"/etc/cron.d/{job.name}", f"{rng.number(0, 59)} * * * * root {job.command}\n")
    build.files(live)

    build.alert("P1")
    build.symptoms(app.http("pictures come", "/render", mark))
    build.healthy(
        ScriptCheck(
            name="most of the shared memory is free",
            script="test $(df -m --output=avail /dev/shm | tail -n 1) -ge 9",
        )
    )
    build.inject(
        build.history(f"vi {job.conf}", job.command), f"{job.put(key, 'yes')} && {job.command}"
    )
    build.trigger(cron=job.program)
    build.collateral(
        app.runs(),
        ("the shared memory of another", live.path),
        ("its settings", app.conf),
        ("the timetable", "/etc/cron.d"),
        ("the program of the job", job.program),
        other_settings_unchanged("the job does as much as before", conf, key),
    )
    build.fault(
        component=("/dev/shm", job.name, job.conf, prefix),
        mechanism="shared memory, /dev/shm, no space left, not removed, left behind",
        value=(key, prefix, f"{key}{job.sign}yes"),
    )
    build.responses(
        reference=(job.put(key, "no"), f"rm -f /dev/shm/{prefix}-*"),
        relief=f"rm -f /dev/shm/{prefix}-*",
        shortcut=(job.put(key, "no"), "rm -rf /dev/shm/*"),
    )
    build.traffic("/render", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "limits",
    "a job that keeps its buffers fills the shared memory that another service needs",
)
