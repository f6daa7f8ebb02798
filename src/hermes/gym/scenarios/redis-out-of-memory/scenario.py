"""A service keeps keys that should expire: the cache is full, and others cannot write to it."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.redis import REDIS_CLIENT, REDIS_NEEDS, redis_server

TEXTS = texts(__file__)

BASKET_PROGRAM = (
    REDIS_CLIENT
    + """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    key = %%keep%% + path.rpartition("/")[2]
    try:
        ask(conf, "SET", key, path, "EX", "60")
        return 200, {"kept": ask(conf, "GET", key)}
    except CacheError as error:
        log("ERROR", %%failed%%.format(error=error))
        return 503, {"error": "not kept"}

serve(int(conf["port"]), answer)
"""
)

VISITS_PROGRAM = (
    REDIS_CLIENT
    + """\
conf = settings(sys.argv[1])
forget = int(conf[%%key%%])

def visit():
    number, size = 0, 60000
    while True:
        number += 1
        words = ["SET", f"%%prefix%%{os.getpid()}:{number}", "x" * size]
        try:
            ask(conf, *words, *(["PX", str(forget)] if forget else []))
            if number % 50 == 0:
                log("INFO", %%wrote%%.format(count=number))
        except CacheError as error:
            log("WARN", %%failed%%.format(error=error))
            size = max(100, size // 2)
            time.sleep(0.03)
        time.sleep(0.008)

threading.Thread(target=visit, daemon=True).start()
serve(int(conf["port"]), lambda path: (200, {"status": "ok"}))
"""
)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, writer, other = rng.services(3)
    layout, writers, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, writer),
        draw_neighbour(rng, other),
    )
    host, key = rng.host(), rng.pick(("ttl_ms", "expire_ms", "keep_ms", "session_ttl_ms"))
    prefix = f"{rng.pick(('visit', 'seen', 'track', 'session', 'view'))}:{rng.word()}:"
    right, most = rng.number(200, 300), rng.number(6, 8)
    base_rows = {f"price:{rng.word()}{n}": rng.token() for n in range(5)}
    cache = redis_server(rng, base_rows, maxmemory=f"{most}mb", policy="noeviction")
    failed = rng.wording(TEXTS["failed"])
    visits = render_program(
        rng,
        VISITS_PROGRAM.replace("%%prefix%%", prefix),
        key=key,
        failed=failed,
        wrote=rng.wording(TEXTS["wrote"]),
    )
    files = (
        *cache.files,
        HostFile(
            path=layout.program,
            text=render_program(rng, BASKET_PROGRAM, keep=f"{service}:", failed=failed),
        ),
        HostFile(path=writers.program, text=visits),
        layout.settings(port=layout.port, cache_port=cache.port),
        writers.settings(port=writers.port, cache_port=cache.port, **{key: right}),
        *neighbour.files,
    )
    word = rng.token()
    basket_works = HttpCheck(
        name="what is put in is kept", port=layout.port, path=f"/put/{word}", contains=word
    )
    memory_free = cache.says(
        "there is room in the cache",
        f"[ $(%s INFO memory | tr -d '\\r' | sed -n 's/^used_memory://p') -lt {most * 800_000} ]",
    )
    rows = [cache.has(name, value) for name, value in base_rows.items()]
    after = "redis.service"
    empty = f"{cache.cli} --scan --pattern '{prefix}*' | xargs -r {cache.cli} UNLINK >/dev/null"
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                folders=cache.folders,
                units=(
                    cache.unit,
                    service_unit(service, layout.command, after=after),
                    service_unit(writer, writers.command, after=after),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(basket_works, memory_free, cache.writes(prefix), *rows, neighbour.answers),
        symptoms=(basket_works, memory_free),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(writer=writer)),
            f"{writers.put(key, 0)}; systemctl restart {writer}",
        ),
        cure=(FaultTrigger(restart=(writers.unit,), script=cache.written(150)),),
        collateral=(
            *rows,
            *neighbour.unharmed,
            UnitRunningCheck(name="the cache ran on", unit=after, undisturbed=True),
            UnchangedCheck(name="the programs", path=writers.program),
            cache.setting("maxmemory-policy", "noeviction"),
        ),
        fault=FaultDescription(
            component=(writer, writers.conf, "redis"),
            mechanism=(
                "no ttl",
                "ttl",
                "never expire",
                "never expires",
                "no expiry",
                "out of memory",
                "oom",
                "maxmemory",
            ),
            value=(key, prefix, f"{key}{writers.sign}0"),
        ),
        reference=(f"{writers.put(key, right)}; systemctl restart {writer}", empty),
        relief=(f"{cache.cli} CONFIG SET maxmemory {most + 4}mb; {empty}",),
        shortcut=(f"{writers.put(key, right)}; systemctl restart {writer}; {cache.cli} FLUSHALL",),
        traffic=(TrafficSpec(port=layout.port, paths=(f"/put/{word}", "/health")),),
    )


SCENARIO = Scenario(
    name="redis-out-of-memory",
    group="database",
    summary="keys that never expire fill a cache that may not evict: nobody can write any more",
    draw=draw,
    needs=REDIS_NEEDS,
)
