"""A job keeps its buffers in shared memory: the next one who needs some finds none."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import others_kept, remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

RENDER = """\
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

FRAMES = """\
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


def draw(dice: Dice) -> Story:
    service, other, job = dice.services(3)
    place, beside, batch = premises(dice, service), neighbour(dice, other), premises(dice, job)
    host, mark = dice.host(), dice.token()
    key = dice.pick(("keep_frames", "retain_segments", "debug_keep", "keep_buffers", "preserve"))
    prefix, log = f"{job}-{dice.word()}", f"/var/log/{job}.log"
    full = dice.wording(TEXTS["full"])
    run = f"{PYTHON} {batch.program} {batch.conf}"
    own = batch.settings(frames=13, prefix=prefix, log=log, **{key: "no"})
    live = File(path=f"/dev/shm/{other}-{dice.word()}", text=dice.token(40) * 4000)
    files = (
        File(path=place.program, text=program(dice, RENDER, full=full)),
        place.settings(port=place.port, prefix=service, mark=mark),
        File(
            path=batch.program,
            text=program(
                dice,
                FRAMES.replace("%%key%%", key),
                full=full,
                kept=dice.wording(TEXTS["kept"]),
            ),
        ),
        own,
        File(path=f"/etc/cron.d/{job}", text=f"{dice.number(0, 59)} * * * * root {run}\n"),
        live,
        *beside.files,
    )
    renders = Http(name="pictures come", port=place.port, path="/render", contains=mark)
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(
            renders,
            Script(
                name="most of the shared memory is free",
                script="test $(df -m --output=avail /dev/shm | tail -n 1) -ge 9",
            ),
            beside.answers,
        ),
        symptoms=(renders,),
        inject=(
            remembered(dice, f"vi {batch.conf}", run),
            f"{batch.put(key, 'yes')} && {run}",
        ),
        cure=(Trigger(cron=batch.program),),
        collateral=(
            *beside.unharmed,
            Running(name="its unit runs", unit=place.unit),
            Same(name="the shared memory of another", path=live.path),
            Same(name="its settings", path=place.conf),
            Same(name="the timetable", path="/etc/cron.d"),
            Same(name="the program of the job", path=batch.program),
            others_kept("the job does as much as before", own, key),
        ),
        fault=Fault(
            component=("/dev/shm", job, batch.conf, prefix),
            mechanism=("shared memory", "/dev/shm", "no space left", "not removed", "left behind"),
            value=(key, prefix, f"{key}{batch.sign}yes"),
        ),
        reference=(batch.put(key, "no"), f"rm -f /dev/shm/{prefix}-*"),
        relief=(f"rm -f /dev/shm/{prefix}-*",),
        shortcut=(batch.put(key, "no"), "rm -rf /dev/shm/*"),
        traffic=(Traffic(port=place.port, paths=("/render", "/health")),),
    )


SCENARIO = Scenario(
    name="full-dev-shm",
    group="limits",
    summary="a job that keeps its buffers fills the shared memory that another service needs",
    draw=draw,
)
