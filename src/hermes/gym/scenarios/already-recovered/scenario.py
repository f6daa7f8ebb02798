"""The alert is about a short problem of the environment that is already over."""

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, requests_script


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, source = build.draw_services(2)
    mark, item = rng.token(), rng.token()
    disk = rng.pick(("/scratch", "/var/tmp/jobs", "/mnt/scratch", "/srv/tmp"))
    export = f"{disk}/{rng.word()}-export.{rng.pick(('csv', 'tar', 'dump'))}"
    pid = f"$(systemctl show -p MainPID --value {source.name})"
    stalled = (
        (f"kill -STOP {pid}", f"kill -CONT {pid}"),
        "timed out, timeout, stalled, did not answer, hung",
        (source.name, source.unit),
        (source.name, "timed out"),
    )
    full = (
        (f"head -c 60000000 /dev/zero > {export} 2>/dev/null || true", f"rm {export}"),
        "no space left, disk full, full",
        (disk, export),
        (disk, "No space left on device", export),
    )
    (begin, end), mechanism, component, value = rng.pick((stalled, full))

    build.start_item_list(source, item)
    build.start(
        app, build.source("service.py.in"), after=source.unit, failed=build.wording("failed")
    )
    build.settings(
        app, port=app.port, source=source.name, source_port=source.port, scratch=disk, mark=mark
    )
    build.disk(disk, rng.number(8, 20))

    build.alert("P1", share=rng.number(12, 70), count=rng.number(20, 400))
    build.symptoms(app.http("sums come", "/sum", mark))
    build.inject(
        build.changes(),
        begin,
        requests_script(app.port, "/sum", rng.number(2, 3)),
        end,
        requests_script(app.port, "/sum", rng.number(4, 8)),
    )
    build.collateral(
        app.undisturbed("the service was left alone"),
        source.undisturbed("its source was left alone"),
        ("the settings of the service", app.conf),
        ("the settings of its source", source.conf),
        ("the data of its source", source.data),
        ("all other settings", "/etc"),
    )
    build.fault(component=component, mechanism=mechanism, value=value)
    build.responses(answer="recovered", relief=source.restart, shortcut=app.restart)
    build.traffic("/sum", "/health")


SCENARIO = build_scenario(
    __file__, draw, "judgement", "a short trouble that was over before the alert was read"
)
