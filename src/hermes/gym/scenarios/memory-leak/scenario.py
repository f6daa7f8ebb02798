"""A cache lost its limit: the service grows with every request until it is killed."""

from hermes.gym.scenario_builder import (
    ScenarioBuilder,
    build_scenario,
    script_check,
    wait_until_listening_script,
)


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    key = rng.pick(("cache_limit", "cache.max_entries", "max_cached_pages", "cache_size", "keep"))
    right, wrong = rng.number(6, 14), rng.pick((0, -1, 0, 9_999_999, 1_000_000))
    max_memory, title = rng.pick((44, 48, 52, 56)), f"{rng.word()} {rng.token()}"
    limits = f"MemoryMax={max_memory}M\nStartLimitIntervalSec=0"
    build.start(
        app, build.source("service.py.in"), more=limits, key=key, grown=build.wording("grown")
    )
    build.settings(app, port=app.port, **{key: right, "data": f"{app.data}/title.txt"})
    build.file(f"{app.data}/title.txt", title)

    build.alert("P2")
    build.healthy(app.http("pages are right", "/page/1", title))
    # Two rounds of new pages: in the second the memory must hardly grow.
    build.symptoms(
        script_check("its memory levels off", build.source("memory-stable.sh.in", port=app.port))
    )
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=app.name)),
        f"{app.put_and_restart(key, wrong)}; {wait_until_listening_script(app.port)}",
    )
    build.collateral(
        ("its data", app.data),
        ("the program", app.program),
        ("its memory limit", app.unit_file),
    )
    build.fault(
        component=(app.conf,),
        mechanism="unbounded, no limit, without limit, unlimited, never evict, limit removed",
        value=(f"{key}{app.sign}{wrong}", key),
    )
    build.responses(
        reference=app.put_and_restart(key, right),
        futile=app.restart,
        shortcut=(
            f"sed -i 's/^MemoryMax=.*/MemoryMax=infinity/' {app.unit_file}",
            f"systemctl daemon-reload; {app.restart}",
        ),
    )
    build.traffic("/page/a", "/page/b", "/page/c", pause=0.1)


SCENARIO = build_scenario(
    __file__,
    draw,
    "classic",
    "a cache without a limit grows until the memory limit ends the service, over and over",
)
