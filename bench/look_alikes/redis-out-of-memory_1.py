"""The keys without an end are what they should be (points of customers); the limit of the cache
itself was lowered in its configuration."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HttpCheck, ScriptCheck
from hermes.gym.services.redis import REDIS_CLIENT, REDIS_NEEDS, redis_server

NEEDS = REDIS_NEEDS
BODY = (
    REDIS_CLIENT
    + """\
conf = settings(sys.argv[1])
for number in range(60):
    for attempt in range(40):
        try:
            words = ["SET", f"points:{conf['mark']}:{number}", "p" * 50000]
            ask(conf, *words, *(["PX", conf["ttl_ms"]] if conf["ttl_ms"] != "0" else []))
            break
        except CacheError as error:
            log("WARN", f"points not written: {error}")
            time.sleep(0.05)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        ask(conf, "SET", "basket:1", conf["mark"], "EX", "60")
        return 200, {"kept": ask(conf, "GET", "basket:1")}
    except CacheError as error:
        log("ERROR", f"not kept: {error}")
        return 503, {"error": "not kept"}

serve(int(conf["port"]), answer)
"""
)


def draw(site: Site) -> LookAlike:
    cache = redis_server(site.rng, {"price:base": site.rng.token()}, maxmemory="16mb")
    conf = "/etc/redis/redis.conf"
    put = (
        f"sed -i 's/^maxmemory .*/maxmemory {{0}}/' {conf}; {cache.cli} CONFIG SET maxmemory {{0}}"
    )
    keys = f"{cache.cli} --scan --pattern 'p*' | sort | sha256sum"
    return site.look_alike(
        alert="{service} on {host}: nothing can be saved, writes fail, reads work",
        body=BODY,
        settings={"cache_port": cache.port, "ttl_ms": 0, "mark": site.token},
        files=cache.files,
        folders=cache.folders,
        units=[cache.unit],
        symptoms=[
            HttpCheck(
                name="it is kept", port=site.layout.port, path="/put", contains=site.token, within=4
            )
        ],
        inject=[f"sleep 2; {put.format('2mb')}"],
        fix=[put.format("16mb")],
        cure=[],
        same=[site.layout.conf, site.layout.program],
        collateral=[
            ScriptCheck(
                name="the points are there",
                script=f"test $({cache.cli} --scan --pattern 'points:*' | wc -l) -eq 60",
            ),
            cache.setting("maxmemory-policy", "noeviction"),
        ],
        keep=[("keys", keys), ("end of a key", f"{cache.cli} TTL points:{site.token}:3")],
        moving=["/var/lib/redis"],
    )
