"""A release went out just before the errors began, but its upstream is the cause."""

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    ScenarioBuilder,
    build_scenario,
    other_settings_unchanged,
)

MODE_SETTINGS = (
    ("mode", "live", "maintenance"),
    ("state", "open", "closed"),
    ("accept", "yes", "no"),
    ("role", "primary", "standby"),
    ("serving", "on", "drain"),
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, upstream = build.draw_services(2)
    mark = rng.token()
    key, right, wrong = rng.pick(MODE_SETTINGS)
    major, minor = rng.number(2, 9), rng.number(1, 30)
    old, new = f"{major}.{minor}.{rng.number(0, 9)}", f"{major}.{minor + 1}.0"
    root = f"/srv/{app.name}-releases"
    current, words = f"{root}/current", build.wording("upstream")
    capacity = rng.number(5, 50)
    build.start(upstream, build.source("stock.py.in", key=key, right=right))
    conf = build.settings(upstream, port=upstream.port, capacity=capacity, **{key: right})
    for version, pages in ((old, ("/order",)), (new, ("/order", "/v2/order"))):
        text = build.render(
            build.source("shop.py.in"), version=version, upstream=words, pages=pages
        )
        build.file(f"{root}/{version}/app.py", text)
    build.file(f"{current}/.keep")
    build.settings(
        app, port=app.port, upstream=upstream.name, upstream_port=upstream.port, mark=mark
    )
    # The first start of the unit creates the link: a host plan has no links.
    command = (
        f"/bin/sh -c 'test -L {current} || {{ rm -rf {current}; ln -s {root}/{new} {current}; }};"
        f" exec {PYTHON_COMMAND} {current}/app.py {app.conf}'"
    )
    build.unit(app, command, after=upstream.unit)

    build.alert("P1", version=new)
    build.symptoms(app.http("orders go through", "/v2/order", mark))
    build.healthy(app.http("the new release is live", "/version", new), app.runs())
    build.inject(
        build.changes(
            build.wording("deploys", service=app.name, version=new),
            f"{upstream.name}: planned work, see the calendar",
        ),
        build.history(f"ls -l {root}", upstream.put(key, wrong), upstream.restart),
        upstream.put_and_restart(key, wrong),
    )
    build.trigger(restart=(upstream.unit, app.unit))
    build.collateral(
        ("the releases and which is current", root),
        ("the settings of the service", app.conf),
        ("the program of the upstream", upstream.program),
        other_settings_unchanged("the other settings of the upstream", conf, key),
    )
    build.fault(
        component=(upstream.name, upstream.conf, upstream.unit),
        mechanism=f"{key} is {wrong}, 503, maintenance, switched off, not serving",
        value=(f"{key}{upstream.sign}{wrong}", f"{key}={wrong}", f"{key} is {wrong}"),
    )
    build.responses(
        reference=(upstream.put(key, right), upstream.restart),
        futile=f"{upstream.restart}; {app.restart}",
        shortcut=(
            f"ln -sfn {root}/{old} {current} && {app.restart}",
            f"{upstream.put(key, right)}; {upstream.restart}",
        ),
    )
    build.traffic("/v2/order", "/version")


SCENARIO = build_scenario(
    __file__,
    draw,
    "judgement",
    "a fresh release is blamed, but the service that it asks was switched off",
)
