"""A unit may use less memory than its data needs: it is killed while it loads the data."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    build_scenario,
    script_check,
    served_by_unit,
)

UNIT_FOLDER = "/etc/systemd/system"


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    shards = [f"{rng.word()}-{rng.token(4)}" for _ in range(rng.number(6, 8))]
    listed = f"{app.data}/{rng.pick(('shards', 'parts', 'segments'))}.list"
    right, wrong = rng.pick((96, 112, 128, 160)), rng.number(16, 26)
    limit = f"# Shared host: every unit keeps a limit.\nMemoryMax={right}M"
    build.start(app, build.source("service.py.in"), more=limit, loading=build.wording("loading"))
    build.file(listed, "".join(f"{name} {rng.number(5, 6)}\n" for name in shards))
    build.settings(app, port=app.port, shards=listed)

    unit, drop_ins = app.unit_file, f"{app.unit_file}.d"
    changed = rng.pick(
        (unit, f"{drop_ins}/{rng.pick(('50-limits', 'override', '10-memory'))}.conf")
    )
    put = "sed -i 's/^MemoryMax=.*/MemoryMax={}/' "
    edit = put.format(f"{wrong}M") + unit
    if changed != unit:
        edit = f"mkdir -p {drop_ins} && printf '[Service]\\nMemoryMax={wrong}M\\n' > {changed}"
    reload = f"systemctl daemon-reload; systemctl reset-failed {app.name}"
    build.alert("P1")
    build.symptoms(app.http("all shards are served", "/items", shards[-1]))
    build.healthy(served_by_unit(app.unit, app.port))
    build.inject(
        build.changes(),
        build.history(f"vi {changed}", "systemctl daemon-reload"),
        f"{edit} && systemctl daemon-reload && {app.restart} || true",
    )
    build.collateral(
        ("its data", listed),
        ("its settings", app.conf),
        ("the program", app.program),
        script_check(
            "the unit still has a limit",
            f"cat {unit} {drop_ins}/*.conf 2>/dev/null | grep ^MemoryMax= "
            "| tail -n 1 | grep -qE '^MemoryMax=[0-9]+[MG]$'",
        ),
    )
    build.fault(
        component=(app.unit, app.name, changed),
        mechanism="MemoryMax, memory limit, OOM, out of memory, oom-kill",
        value=(f"{wrong}M", f"MemoryMax={wrong}M", f"{wrong} MB"),
    )
    build.responses(
        reference=(put.format(f"{right}M") + changed, reload, app.restart),
        futile=f"systemctl reset-failed {app.name}; {app.restart}",
        shortcut=(put.format("infinity") + f"{unit} {drop_ins}/*.conf", reload, app.restart),
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "limits",
    "the memory limit of a unit was lowered below what its data needs",
)
