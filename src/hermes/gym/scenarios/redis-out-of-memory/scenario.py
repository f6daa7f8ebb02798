"""A service keeps what it should forget: the cache is full, and others cannot write to it."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.redis_server import CLIENT, NEEDS, redis
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

BASKET = (
    CLIENT
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

VISITS = (
    CLIENT
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


def draw(dice: Dice) -> Story:
    service, writer, other = dice.services(3)
    place, writers, beside = premises(dice, service), premises(dice, writer), neighbour(dice, other)
    host, key = dice.host(), dice.pick(("ttl_ms", "expire_ms", "keep_ms", "session_ttl_ms"))
    prefix = f"{dice.pick(('visit', 'seen', 'track', 'session', 'view'))}:{dice.word()}:"
    right, most = dice.number(200, 300), dice.number(6, 8)
    precious = {f"price:{dice.word()}{n}": dice.token() for n in range(5)}
    cache = redis(dice, precious, maxmemory=f"{most}mb", policy="noeviction")
    failed = dice.wording(TEXTS["failed"])
    visits = program(
        dice,
        VISITS.replace("%%prefix%%", prefix),
        key=key,
        failed=failed,
        wrote=dice.wording(TEXTS["wrote"]),
    )
    files = (
        *cache.files,
        File(path=place.program, text=program(dice, BASKET, keep=f"{service}:", failed=failed)),
        File(path=writers.program, text=visits),
        place.settings(port=place.port, cache_port=cache.port),
        writers.settings(port=writers.port, cache_port=cache.port, **{key: right}),
        *beside.files,
    )
    word = dice.token()
    keeps = Http(name="what is put in is kept", port=place.port, path=f"/put/{word}", contains=word)
    room = cache.says(
        "there is room in the cache",
        f"[ $(%s INFO memory | tr -d '\\r' | sed -n 's/^used_memory://p') -lt {most * 800_000} ]",
    )
    rows = [cache.has(name, value) for name, value in precious.items()]
    after = "redis.service"
    empty = f"{cache.cli} --scan --pattern '{prefix}*' | xargs -r {cache.cli} UNLINK >/dev/null"
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=cache.folders,
                units=(
                    cache.unit,
                    unit(service, place.command, after=after),
                    unit(writer, writers.command, after=after),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(keeps, room, cache.writes(prefix), *rows, beside.answers),
        symptoms=(keeps, room),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(writer=writer)),
            f"{writers.put(key, 0)}; systemctl restart {writer}",
        ),
        cure=(Trigger(restart=(writers.unit,), script=cache.written(150)),),
        collateral=(
            *rows,
            *beside.unharmed,
            Running(name="the cache ran on", unit=after, undisturbed=True),
            Same(name="the programs", path=writers.program),
            cache.setting("maxmemory-policy", "noeviction"),
        ),
        fault=Fault(
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
        traffic=(Traffic(port=place.port, paths=(f"/put/{word}", "/health")),),
    )


SCENARIO = Scenario(
    name="redis-out-of-memory",
    group="database",
    summary="keys that never expire fill a cache that may not evict: nobody can write any more",
    draw=draw,
    needs=NEEDS,
)
