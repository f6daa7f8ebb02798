"""A page fails because its upstream fails, and that because its own upstream became slow."""

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, other_settings_unchanged


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    front, middle, last = build.draw_services(3)
    mark = rng.token()
    key = rng.pick(("sync_ms", "write_delay_ms", "scan_ms", "poll_ms", "flush_ms"))
    right, wrong = rng.number(0, 3), rng.number(1500, 9000)
    waited, rows = build.wording("waited"), rng.number(100, 999)
    for each, upstream, timeout in ((front, middle, 0.7), (middle, last, 0.5)):
        build.program(each, build.source("intermediate.py.in"), waited=waited)
        build.settings(
            each,
            port=each.port,
            upstream=upstream.name,
            upstream_port=upstream.port,
            timeout=timeout,
        )
    build.program(last, build.source("backend.py.in", key=key))
    conf = build.settings(last, port=last.port, mark=mark, rows=rows, **{key: right})
    for each in (last, middle, front):
        build.unit(each)

    restart_all = f"systemctl restart {front.name} {middle.name} {last.name}"
    build.alert("P1")
    build.symptoms(front.http("the page comes", "/page", mark))
    build.healthy(last.runs("the last one runs"))
    build.inject(
        build.changes(f"{front.name} restyled, new logo"), last.put_and_restart(key, wrong)
    )
    build.trigger(restart=(last.unit,))
    build.collateral(
        ("the settings of the first", front.conf),
        ("the settings of the second", middle.conf),
        ("the program of the first", front.program),
        ("the program of the second", middle.program),
        ("the program of the last", last.program),
        other_settings_unchanged("the other settings of the last", conf, key),
    )
    build.fault(
        component=(last.name, last.conf, last.unit),
        mechanism=f"slow, delay, latency, {key}",
        value=(f"{wrong}", f"{key}{last.sign}{wrong}"),
    )
    longer = f"{front.put('timeout', 60)}; {middle.put('timeout', 60)}"
    build.responses(
        reference=(last.put(key, right), last.restart),
        futile=restart_all,
        shortcut=(f"{longer}; {last.put(key, 50)}", restart_all),
    )
    build.traffic("/page", "/health")
    build.decoy("decoys")


SCENARIO = build_scenario(
    __file__,
    draw,
    "judgement",
    "the symptom is at the front, the cause two services behind it",
    held_out=True,
)
