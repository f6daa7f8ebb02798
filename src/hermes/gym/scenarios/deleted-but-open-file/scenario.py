"""A large file was deleted while a process still has it open: its space is not freed."""

from hermes.gym.scenario_builder import DiskSpaceCheck, ScenarioBuilder, build_scenario


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, tracer = build.draw_services(2)
    mark, tracer_mark = rng.token(), rng.token()
    disk = rng.pick(("/data", "/var/spool/shared", "/mnt/store", "/srv/volume", "/var/vol1"))
    trace = f"{disk}/{rng.pick(('trace', 'debug', 'capture', 'dump'))}-{rng.token(4)}.log"
    archive, spool = f"{disk}/archive-{rng.word()}", f"{disk}/{app.name}"
    build.start(app, build.source("store.py.in"), full=build.wording("full"))
    build.settings(app, port=app.port, spool=spool, mark=mark)
    build.start(tracer, build.source("tracer.py.in"), tracing=build.wording("tracing"))
    build.settings(tracer, port=tracer.port, trace="off", trace_file=trace, mark=tracer_mark)
    for _ in range(rng.number(2, 4)):
        build.file(f"{archive}/{rng.token()}.dat", rng.token(64) * 8000)
    build.folders(spool)
    build.disk(disk, rng.number(10, 16))

    build.alert("P1", disk=disk)
    build.symptoms(app.http("uploads are stored", "/put", mark))
    build.symptoms(DiskSpaceCheck(name="there is some room", path=disk, free_mb=2), healthy=False)
    build.healthy(
        tracer.http("the other one answers", "/seen", tracer_mark),
        DiskSpaceCheck(name="there is room", path=disk, free_mb=4),
    )
    build.inject(
        tracer.put("trace", "on"),
        f"{tracer.restart}; for n in $(seq 200); do"
        f" test $(df -k --output=avail {disk} | tail -n 1) -le 64 && break; sleep 0.02; done",
        f"{tracer.put('trace', 'off')} && rm {trace}",
        build.history(f"df -h {disk}", f"ls -lh {disk}", f"rm {trace}", f"df -h {disk}"),
    )
    build.trigger(restart=(tracer.unit,))
    build.collateral(
        app.undisturbed("it was left alone"),
        ("the archive", archive),
        ("its settings", app.conf),
        ("the settings of the other", tracer.conf),
    )
    build.fault(
        component=(tracer.name, trace, tracer.unit),
        mechanism="deleted, unlinked, still open, held open, open file",
        value=(trace, trace.rpartition("/")[2], tracer.name),
    )
    build.responses(
        reference=tracer.restart,
        futile=f"rm -f {spool}/* /var/log/*.log; {app.restart}",
        shortcut=f"rm -rf {archive}",
    )
    build.traffic("/put", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "files",
    "a removed trace file is still held open by a service, and its space with it",
)
