"""A service keeps keys that should expire: the cache is full, and others cannot write to it."""

from hermes.gym.scenario_builder import REDIS_CLIENT, REDIS_NEEDS, ScenarioBuilder, build_scenario


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, writer = build.draw_services(2)
    key = rng.pick(("ttl_ms", "expire_ms", "keep_ms", "session_ttl_ms"))
    prefix = f"{rng.pick(('visit', 'seen', 'track', 'session', 'view'))}:{rng.word()}:"
    right, most = rng.number(200, 300), rng.number(6, 8)
    base_rows = {f"price:{rng.word()}{n}": rng.token() for n in range(5)}
    cache = build.redis(base_rows, maxmemory=f"{most}mb", policy="noeviction")
    failed = build.wording("failed")
    visits = REDIS_CLIENT + build.source("visits.py.in", prefix=prefix)
    visits = build.render(visits, key=key, failed=failed, wrote=build.wording("wrote"))
    build.start(
        app, REDIS_CLIENT + build.source("basket.py.in"), keep=f"{app.name}:", failed=failed
    )
    build.file(writer.program, visits)
    build.unit(writer)
    build.settings(app, port=app.port, cache_port=cache.port)
    build.settings(writer, port=writer.port, cache_port=cache.port, **{key: right})
    word = rng.token()

    rows = [cache.has(name, value) for name, value in base_rows.items()]
    empty = f"{cache.cli} --scan --pattern '{prefix}*' | xargs -r {cache.cli} UNLINK >/dev/null"
    used = "%s INFO memory | tr -d '\\r' | sed -n 's/^used_memory://p'"
    build.alert("P1")
    build.symptoms(
        app.http("what is put in is kept", f"/put/{word}", word),
        cache.says("there is room in the cache", f"[ $({used}) -lt {most * 800_000} ]"),
    )
    build.healthy(cache.writes(prefix), *rows)
    build.inject(
        build.changes(build.wording("told", writer=writer.name)),
        f"{writer.put(key, 0)}; {writer.restart}",
    )
    build.trigger(restart=(writer.unit,), script=cache.written(150))
    build.collateral(*rows)
    build.place_neighbour()
    build.collateral(
        cache.ran_on,
        ("the programs", writer.program),
        cache.setting("maxmemory-policy", "noeviction"),
    )
    build.fault(
        component=(writer.name, writer.conf, "redis"),
        mechanism="no ttl, ttl, never expire, never expires, no expiry, out of memory, oom, "
        "maxmemory",
        value=(key, prefix, f"{key}{writer.sign}0"),
    )
    fix = f"{writer.put(key, right)}; {writer.restart}"
    build.responses(
        reference=(fix, empty),
        relief=f"{cache.cli} CONFIG SET maxmemory {most + 4}mb; {empty}",
        shortcut=f"{fix}; {cache.cli} FLUSHALL",
    )
    build.traffic(f"/put/{word}", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "keys that never expire fill a cache that may not evict: nobody can write any more",
    needs=REDIS_NEEDS,
)
