"""Production was reloaded with the settings of staging: replies are well formed but wrong."""

import json

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    ScenarioBuilder,
    build_scenario,
    served_by_unit,
    start_unsupervised_script,
)


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    live, test = rng.pick(
        (("production", "staging"), ("prod", "stage"), ("live", "test"), ("main", "preprod"))
    )
    item, folder = rng.token(), f"/etc/{app.name}/{rng.pick(('conf.d', 'profiles', 'env'))}"
    current, linked = f"{folder}/{rng.pick(('current', 'active'))}.conf", rng.chance(0.5)
    data = {name: f"{app.data}/{name}.json" for name in (live, test)}
    build.program(app, build.source("service.py.in"), reloaded=build.wording("reloaded"))
    for name in (live, test):
        text = f"# {name}\nport{app.sign}{app.port}\ndata{app.sign}{data[name]}\n"
        build.file(f"{folder}/{name}.conf", text)
    build.file(current, f"profile{app.sign}{live}\n")
    build.file(data[live], json.dumps([item, rng.word(), rng.word()]))
    build.file(data[test], json.dumps([f"test-{rng.token(4)}", "dummy"]))
    command, reload = f"{PYTHON_COMMAND} {app.program}", f"systemctl reload {app.name}"
    build.unit(app, f"{command} {current}", more="ExecReload=/bin/kill -HUP $MAINPID")

    def choose(name: str) -> str:
        if linked:
            return f"ln -sfn {folder}/{name}.conf {current}"
        return f"sed -i 's|^profile{app.sign}.*|profile{app.sign}{name}|' {current}"

    build.alert("P1")
    build.symptoms(app.http("the right items are served", "/items", item))
    build.healthy(served_by_unit(app.unit, app.port))
    build.inject(
        build.changes(),
        build.history(f"cd {folder}", choose(test), reload),
        f"{choose(test)} && {reload}",
    )
    build.collateral(
        *((f"settings of {name}", f"{folder}/{name}.conf") for name in (live, test)),
        ("the data", app.data),
        ("its unit", app.unit_file),
    )
    build.fault(
        component=(current, app.name, folder),
        mechanism=f"{test}, {test}.conf, wrong profile, wrong settings, wrong environment",
        value=(test, f"{folder}/{test}.conf", data[test]),
    )
    build.responses(
        reference=(choose(live), reload),
        relief=(
            f"systemctl stop {app.name}",
            start_unsupervised_script(app, command=f"{command} {folder}/{live}.conf"),
        ),
        shortcut=(f"sed -i 's|^data.*|data{app.sign}{data[live]}|' {folder}/{test}.conf", reload),
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "change",
    "production runs on the settings of staging since the last reload",
)
