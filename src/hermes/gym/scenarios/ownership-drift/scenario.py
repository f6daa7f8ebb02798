"""A cleanup job gives the spool to the wrong user: the service can no longer write to it."""

from hermes.gym.scenario_builder import (
    SEVERAL_USERS,
    HostFolder,
    ScenarioBuilder,
    build_scenario,
    other_settings_unchanged,
    script_check,
)

FIRST_UID = 1001


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    owner, wrong = rng.some(("www", "svc", "app", "intake", "runner", "daemon"), 2)
    wrong = rng.pick((wrong, "root"))
    mark, spool = rng.token(), f"/var/spool/{app.name}-{rng.word()}"
    cleanup = f"/opt/{rng.pick(('ops', 'scripts', 'maintenance'))}/tidy-{app.name}"
    conf, archive = f"{cleanup}.conf", f"{app.data}/archive"
    values = f"owner={owner}\ndays={rng.number(3, 30)}\n"
    build.start(app, build.source("service.py.in"), user=owner, denied=build.wording("denied"))
    build.settings(app, port=app.port, spool=spool, mark=mark)
    build.script(f"{cleanup}.sh", build.source("cleanup.sh.in").format(conf=conf, spool=spool))
    settings = build.file(conf, values)
    build.file(f"/etc/cron.d/tidy-{app.name}", f"15 * * * * root {cleanup}.sh\n")
    build.file(f"{archive}/{rng.token()}.rec", rng.token(30), owner=FIRST_UID)
    build.folders(HostFolder(path=spool, mode=0o750, owner=FIRST_UID))
    build.host_options(users=(owner, wrong) if wrong != "root" else (owner,))

    put, chown = f"sed -i 's/^owner=.*/owner={{}}/' {conf}", f"chown -R {owner}:{owner} {spool}"
    build.alert("P1")
    build.symptoms(app.http("entries are stored", "/put", mark))
    build.healthy(app.runs())
    build.inject(
        build.changes(f"tidy job of {rng.word()} reviewed"),
        f"{put.format(wrong)} && {cleanup}.sh",
    )
    build.trigger(cron=cleanup)
    build.trigger(restart=(app.unit,))
    build.collateral(
        ("the archive", archive),
        ("its settings", app.conf),
        ("its unit", app.unit_file),
        ("the timetable", "/etc/cron.d"),
        ("the tidy job", f"{cleanup}.sh"),
        other_settings_unchanged("the other settings of the tidy job", settings, "owner"),
        script_check(
            "the spool is not open to everybody",
            f'test -z "$(find {spool} -perm /o=w)"',
        ),
    )
    build.fault(
        component=(spool, conf, f"{cleanup}.sh", app.name),
        mechanism="owner, ownership, chown, permission denied, permissions",
        value=(wrong, f"owner={wrong}"),
    )
    build.responses(
        reference=(put.format(owner), chown), relief=chown, shortcut=f"chmod -R 777 {spool}"
    )
    build.traffic("/put", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "files",
    "a tidy job gives the spool to another user, and the service cannot write to it",
    needs=(SEVERAL_USERS,),
)
