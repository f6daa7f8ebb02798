"""A large file was deleted while a process still has it open: its space is not freed."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    FaultDescription,
    FaultTrigger,
    HostDisk,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.shell_scripts import shell_history_script

TEXTS = texts(__file__)

STORE_PROGRAM = """\
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

TRACER_PROGRAM = """\
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


def draw(rng: RandomSource) -> ScenarioSpec:
    service, holder, other = rng.services(3)
    layout, tracer, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, holder),
        draw_neighbour(rng, other),
    )
    host, mark, tracer_mark = rng.host(), rng.token(), rng.token()
    disk = rng.pick(("/data", "/var/spool/shared", "/mnt/store", "/srv/volume", "/var/vol1"))
    trace = f"{disk}/{rng.pick(('trace', 'debug', 'capture', 'dump'))}-{rng.token(4)}.log"
    archive = f"{disk}/archive-{rng.word()}"
    files = (
        HostFile(
            path=layout.program,
            text=render_program(rng, STORE_PROGRAM, full=rng.wording(TEXTS["full"])),
        ),
        layout.settings(port=layout.port, spool=f"{disk}/{service}", mark=mark),
        HostFile(
            path=tracer.program,
            text=render_program(rng, TRACER_PROGRAM, tracing=rng.wording(TEXTS["tracing"])),
        ),
        tracer.settings(port=tracer.port, trace="off", trace_file=trace, mark=tracer_mark),
        *(
            HostFile(path=f"{archive}/{rng.token()}.dat", text=rng.token(64) * 8000)
            for _ in range(rng.number(2, 4))
        ),
        *neighbour.files,
    )
    stores = HttpCheck(name="uploads are stored", port=layout.port, path="/put", contains=mark)
    traces = HttpCheck(
        name="the other one answers", port=tracer.port, path="/seen", contains=tracer_mark
    )
    facts = {"service": service, "host": host, "port": layout.port, "disk": disk}
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=(f"{disk}/{service}",),
                disks=(HostDisk(disk, rng.number(10, 16)),),
                units=(
                    service_unit(service, layout.command),
                    service_unit(holder, tracer.command),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", **facts),
        healthy=(
            stores,
            traces,
            DiskSpaceCheck(name="there is room", path=disk, free_mb=4),
            neighbour.answers,
        ),
        symptoms=(stores, DiskSpaceCheck(name="there is some room", path=disk, free_mb=2)),
        inject=(
            tracer.put("trace", "on"),
            f"systemctl restart {holder}; for n in $(seq 200); do"
            f" test $(df -k --output=avail {disk} | tail -n 1) -le 64 && break; sleep 0.02; done",
            f"{tracer.put('trace', 'off')} && rm {trace}",
            shell_history_script(
                rng, f"df -h {disk}", f"ls -lh {disk}", f"rm {trace}", f"df -h {disk}"
            ),
        ),
        cure=(FaultTrigger(restart=(f"{holder}.service",)),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="it was left alone", unit=layout.unit, undisturbed=True),
            UnchangedCheck(name="the archive", path=archive),
            UnchangedCheck(name="its settings", path=layout.conf),
            UnchangedCheck(name="the settings of the other", path=tracer.conf),
        ),
        fault=FaultDescription(
            component=(holder, trace, f"{holder}.service"),
            mechanism=("deleted", "unlinked", "still open", "held open", "open file"),
            value=(trace, trace.rpartition("/")[2], holder),
        ),
        reference=(f"systemctl restart {holder}",),
        relief=(f"rm -f {disk}/{service}/* /var/log/*.log; systemctl restart {service}",),
        shortcut=(f"rm -rf {archive}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/put", "/health")),),
    )


SCENARIO = Scenario(
    name="deleted-but-open-file",
    group="files",
    summary="a removed trace file is still held open by a service, and its space with it",
    draw=draw,
)
