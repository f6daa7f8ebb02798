"""A rule in the firewall of one host keeps it from the cache on another."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.redis_server import CLIENT, redis
from hermes.gym.parts.redis_server import NEEDS as REDIS
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Script, Story, Traffic, Trigger

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
        ask(conf, "SET", key, path)
        return 200, {"kept": ask(conf, "GET", key)}
    except CacheError as error:
        log("ERROR", %%failed%%.format(error=error))
        return 503, {"error": "not kept"}

serve(int(conf["port"]), answer)
"""
)
TABLE = """\
flush ruleset
table inet {table} {{
  chain input {{
    type filter hook input priority 0; policy accept;
  }}
  chain output {{
    type filter hook output priority 0; policy accept;
    ip daddr {far} tcp dport {closed} reject with tcp reset comment "{why}"
  }}
}}
include "{folder}/*.nft"
"""
UNIT = """\
[Unit]
Description=Packet filter

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f {conf}

[Install]
WantedBy=multi-user.target
"""


def draw(dice: Dice) -> Story:
    service, other, admin = dice.services(3)
    place, beside, back = premises(dice, service), neighbour(dice, other), premises(dice, admin)
    host, far_host = dice.host(), f"{dice.pick(('cache', 'redis', 'store'))}-{dice.number(41, 60)}"
    net = f"10.{dice.number(1, 250)}.{dice.number(1, 250)}"
    near, far = (f"{net}.{each}" for each in dice.some(range(10, 120), 2))
    row, value = f"{service}:{dice.word()}", dice.token()
    cache = redis(dice, {row: value}, bind="0.0.0.0")
    failed = dice.wording(TEXTS["failed"])
    table, unit_name = (
        dice.pick(("filter", "host", "guard")),
        dice.pick(("firewall", "packetfilter")),
    )
    folder = dice.pick(("/etc/nftables.d", "/etc/firewall.d", "/etc/nft/rules"))
    conf = dice.pick(("/etc/nftables.conf", "/etc/firewall.nft"))
    late = f"{folder}/{dice.number(10, 90)}-{dice.word()}.nft"
    rule = dice.pick(
        (
            f"output ip daddr {far} tcp dport {cache.port} drop",
            f"input ip saddr {far} tcp sport {cache.port} drop",
            f"output ip daddr {net}.0/25 drop",
            f"input ip saddr {far} drop",
            f"output tcp dport {cache.port} drop",
        )
    )
    extra = f"{folder}/05-{dice.word()}.nft"
    shut = Script(
        name="what was closed stays closed",
        script=f"! (: <>/dev/tcp/{far}/{back.port}) 2>&1",
        contains="refused",
    )
    word = dice.token()
    files = (
        File(
            path=place.program,
            text=program(dice, BASKET, keep=f"{service}:", failed=failed),
        ),
        place.settings(port=place.port, cache_host=far, cache_port=cache.port, cache_timeout=0.4),
        File(
            path=conf,
            text=TABLE.format(
                table=table, far=far, closed=back.port, why=f"{admin} is not for us", folder=folder
            ),
        ),
        File(path=extra, text=f"add rule inet {table} input tcp dport {dice.port()} drop\n"),
        *beside.files,
    )
    there = (
        *cache.files,
        File(path=back.program, text=program(dice, SHELF).replace("127.0.0.1", "0.0.0.0")),
        back.settings(port=back.port, data=f"{back.data}/items.json"),
        File(path=f"{back.data}/items.json", text='["x"]'),
    )
    keeps = Http(name="what is put in is kept", port=place.port, path=f"/put/{word}", contains=word)
    told = dice.wording(TEXTS["told"])
    return Story(
        hosts=(
            Host(
                name=host,
                address=near,
                files=files,
                folders=(folder,),
                units=(
                    File(path=f"{unit_name}.service", text=UNIT.format(conf=conf)),
                    unit(service, place.command),
                    beside.unit,
                ),
            ),
            Host(
                name=far_host,
                address=far,
                files=there,
                folders=cache.folders,
                units=(cache.unit, unit(admin, back.command)),
            ),
        ),
        alert=alert(
            dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port, far=far_host
        ),
        healthy=(
            keeps,
            shut,
            cache.has(row, value, host=1),
            Http(name=f"{admin} is up", port=back.port, path="/health", host=1),
            beside.answers,
        ),
        symptoms=(keeps,),
        inject=(
            changes(dice, told.format(host=far_host)),
            f"echo 'add rule inet {table} {rule}' > {late}; systemctl restart {unit_name}",
        ),
        cure=(Trigger(restart=(f"{unit_name}.service", place.unit)),),
        collateral=(
            *beside.unharmed,
            shut,
            cache.has(row, value, host=1),
            Same(name="the other rules", path=extra),
            Same(name="the settings of the service", path=place.conf),
            Same(name="the settings of the cache", path="/etc/redis", host=1),
        ),
        fault=Fault(
            component=(late, unit_name, "firewall", "nft"),
            mechanism=("drop", "drops", "dropped", "firewall", "blocked", "blocks", "partition"),
            value=(far, f"{cache.port}", late),
        ),
        reference=(f"rm {late}; systemctl restart {unit_name}",),
        relief=(f"mv {late} /tmp/x; systemctl restart {unit_name}; mv /tmp/x {late}",),
        shortcut=(f"rm -f {late}; echo 'flush ruleset' > {conf}; systemctl restart {unit_name}",),
        traffic=(Traffic(port=place.port, paths=(f"/put/{word}", "/health")),),
    )


SCENARIO = Scenario(
    name="network-partition",
    group="network",
    summary="a firewall rule cuts a host off from the cache on another host",
    draw=draw,
    needs=(*REDIS, "ip", "nft", "nsenter"),
)
