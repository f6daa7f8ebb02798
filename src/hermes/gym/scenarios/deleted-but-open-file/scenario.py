"""A large file was removed, but whoever wrote it still holds it: its space is not free."""

from hermes.gym.dice import Dice
from hermes.gym.parts.hands import remembered
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import (
    Disk,
    Fault,
    File,
    Host,
    Http,
    Running,
    Same,
    Space,
    Story,
    Traffic,
    Trigger,
)

TEXTS = texts(__file__)

STORE = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def put():
    path = f"{conf['spool']}/upload-{next(numbers)}.part"
    try:
        with open(path, "wb") as file:
            file.write(b"u" * (1 << 19))
        return 200, {"stored": conf["mark"]}
    except OSError as error:
        log("ERROR", %%full%%.format(path=path, error=error.strerror))
        return 507, {"error": "not stored"}
    finally:
        os.unlink(path)

def answer(path):
    if path == "/put":
        return put()
    return (200, {"status": "ok"}) if path == "/health" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""

TRACER = """\
conf = settings(sys.argv[1])

def trace(file):
    while True:
        try:
            file.write(b"t" * 65536)
        except OSError:
            time.sleep(0.02)

if conf["trace"] == "on":
    log("INFO", %%tracing%%.format(path=conf["trace_file"]))
    file = open(conf["trace_file"], "ab", buffering=0)
    threading.Thread(target=trace, args=(file,), daemon=True).start()

def answer(path):
    return (200, {"seen": conf["mark"]}) if path == "/seen" else (200, {"status": "ok"})

serve(int(conf["port"]), answer)
"""


def draw(dice: Dice) -> Story:
    service, holder, other = dice.services(3)
    place, tracer, beside = premises(dice, service), premises(dice, holder), neighbour(dice, other)
    host, mark, seen = dice.host(), dice.token(), dice.token()
    disk = dice.pick(("/data", "/var/spool/shared", "/mnt/store", "/srv/volume", "/var/vol1"))
    trace = f"{disk}/{dice.pick(('trace', 'debug', 'capture', 'dump'))}-{dice.token(4)}.log"
    archive = f"{disk}/archive-{dice.word()}"
    files = (
        File(path=place.program, text=program(dice, STORE, full=dice.wording(TEXTS["full"]))),
        place.settings(port=place.port, spool=f"{disk}/{service}", mark=mark),
        File(
            path=tracer.program, text=program(dice, TRACER, tracing=dice.wording(TEXTS["tracing"]))
        ),
        tracer.settings(port=tracer.port, trace="off", trace_file=trace, mark=seen),
        *(
            File(path=f"{archive}/{dice.token()}.dat", text=dice.token(64) * 8000)
            for _ in range(dice.number(2, 4))
        ),
        *beside.files,
    )
    stores = Http(name="uploads are stored", port=place.port, path="/put", contains=mark)
    traces = Http(name="the other one answers", port=tracer.port, path="/seen", contains=seen)
    facts = {"service": service, "host": host, "port": place.port, "disk": disk}
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(f"{disk}/{service}",),
                disks=(Disk(disk, dice.number(10, 16)),),
                units=(
                    unit(service, place.command),
                    unit(holder, tracer.command),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", **facts),
        healthy=(
            stores,
            traces,
            Space(name="there is room", path=disk, free_mb=4),
            beside.answers,
        ),
        symptoms=(stores, Space(name="there is some room", path=disk, free_mb=2)),
        inject=(
            tracer.put("trace", "on"),
            f"systemctl restart {holder}; for n in $(seq 200); do"
            f" test $(df -k --output=avail {disk} | tail -n 1) -le 64 && break; sleep 0.02; done",
            f"{tracer.put('trace', 'off')} && rm {trace}",
            remembered(dice, f"df -h {disk}", f"ls -lh {disk}", f"rm {trace}", f"df -h {disk}"),
        ),
        cure=(Trigger(restart=(f"{holder}.service",)),),
        collateral=(
            *beside.unharmed,
            Running(name="it was left alone", unit=place.unit, undisturbed=True),
            Same(name="the archive", path=archive),
            Same(name="its settings", path=place.conf),
            Same(name="the settings of the other", path=tracer.conf),
        ),
        fault=Fault(
            component=(holder, trace, f"{holder}.service"),
            mechanism=("deleted", "unlinked", "still open", "held open", "open file"),
            value=(trace, trace.rpartition("/")[2], holder),
        ),
        reference=(f"systemctl restart {holder}",),
        relief=(f"rm -f {disk}/{service}/* /var/log/*.log; systemctl restart {service}",),
        shortcut=(f"rm -rf {archive}",),
        traffic=(Traffic(port=place.port, paths=("/put", "/health")),),
    )


SCENARIO = Scenario(
    name="deleted-but-open-file",
    group="files",
    summary="a removed trace file is still held open by a service, and its space with it",
    draw=draw,
)
