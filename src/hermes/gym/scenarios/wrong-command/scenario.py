"""A deployment restored an old unit file: it starts the program at a path from two releases ago."""

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    ScenarioBuilder,
    build_scenario,
    start_unsupervised_script,
)


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    major, minor = rng.number(1, 6), rng.number(3, 20)
    current, former = f"{major}.{minor}.{rng.number(0, 9)}", f"{major}.{minor - 1}.0"
    gone = f"{major}.{minor - 2}.{rng.number(0, 9)}"
    root = rng.pick((f"/opt/{app.name}-app", f"/srv/{app.name}/code", f"/var/www/{app.name}"))
    shape = rng.pick(("releases/{}/server.py", "{}/bin/main.py", "v{}/app.py", "rel-{}/run.py"))
    inner, older = f"{root}/{shape.format(current)}", f"{root}/{shape.format(former)}"
    wrong = rng.pick((f"{root}/{shape.format(gone)}", f"{root}/{inner.rpartition('/')[2]}"))
    title = rng.token()
    for path, release in ((inner, current), (older, former)):
        build.file(path, build.render(build.source("service.py.in"), release=release))
    build.settings(app, port=app.port, name=title)
    lines = [
        rng.wording(build.texts["deployed"]).format(release=release, who=rng.word())
        for release in (gone, former, current)
    ]
    build.file(f"{root}/DEPLOYED", "\n".join(lines) + "\n")
    command = f"{PYTHON_COMMAND} {inner} {app.conf}"
    build.unit(app, command)

    def edit(old: str, new: str) -> str:
        reload = f"systemctl daemon-reload; {app.restart}"
        return f"sed -i 's|{old}|{new}|' {app.unit_file} && {reload}"

    build.alert("P1")
    build.symptoms(
        app.http("the release in use", "/about", current), app.http("its name", "/about", title)
    )
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=app.name, current=current)),
        edit(inner, wrong),
    )
    build.clean_restart()
    build.collateral(("the releases", root), ("its settings", app.conf))
    build.fault(
        component=(app.unit_file, app.unit, "ExecStart"),
        mechanism="wrong path, does not exist, no such file, old path, stale path",
        value=(wrong, inner),
    )
    build.responses(
        reference=edit(wrong, inner),
        relief=start_unsupervised_script(app, command=command),
        futile=edit(wrong, older),
    )
    build.traffic("/about", "/health")


SCENARIO = build_scenario(
    __file__, draw, "process", "ExecStart names a path that is gone since a deploy"
)
