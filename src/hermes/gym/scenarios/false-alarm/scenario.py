"""The monitor alerts because its own limit is wrong; the host and its services are healthy."""

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario

METRIC_KINDS = {
    "disk": ("disk usage in percent", "0"),
    "latency": ("latency in milliseconds", "0.9"),
    "files": ("number of files", "2"),
}
"""The metric, and a limit that every host exceeds."""


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, monitor = build.draw_services(2, neighbour_at=1)
    item, kind = rng.token(), rng.pick(tuple(METRIC_KINDS))
    what, limit = METRIC_KINDS[kind]
    key = rng.pick(("max", "threshold", "limit", "critical", "alarm_above"))
    data = {name: rng.token(400) for name in ("a.dat", "b.dat", "c.dat", "d.dat")}
    build.start_item_list(app, item)
    for name, text in data.items():
        build.file(f"{app.data}/{name}", text)
    build.start(monitor, build.source("monitor.py.in", key=key), firing=build.wording("firing"))
    build.settings(monitor, kind=kind, what=what, path=app.data, port=app.port, **{key: limit})

    value = {"disk": "0.3", "latency": "1.1", "files": f"{len(data) + 1}"}[kind]
    build.alert("P2", what=what, value=value, limit=limit)
    build.symptoms(app.http("the items are served", "/items", item))
    build.inject(build.changes(f"new checks for {app.name} in {monitor.name}"))
    build.collateral(
        app.undisturbed("the service was left alone"),
        monitor.undisturbed("the monitor was left alone"),
        ("the data", app.data),
        ("all settings", "/etc"),
        ("the settings of the service", app.conf),
        ("the settings of the monitor", monitor.conf),
        ("the programs", "/opt"),
    )
    build.fault(
        component=(monitor.conf, monitor.name, monitor.unit),
        mechanism="threshold, false alarm, limit, too low, wrong limit",
        value=(key, f"{key}{monitor.sign}{limit}"),
    )
    build.responses(
        answer="no-incident",
        relief=(monitor.put(key, "99999"), monitor.restart),
        shortcut=app.restart,
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__, draw, "judgement", "the limit of a check is wrong; nothing else is"
)
