"""A firewall rule of one host blocks the cache on another host."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
)
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)
from hermes.gym.services.redis import REDIS_CLIENT, redis_server
from hermes.gym.services.redis import REDIS_NEEDS as REDIS

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
        ask(conf, "SET", key, path)
        return 200, {"kept": ask(conf, "GET", key)}
    except CacheError as error:
        log("ERROR", %%failed%%.format(error=error))
        return 503, {"error": "not kept"}

serve(int(conf["port"]), answer)
"""
)
NFTABLES_RULES = """\
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
FIREWALL_UNIT = """\
[Unit]
Description=Packet filter

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f {conf}

[Install]
WantedBy=multi-user.target
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other, admin = rng.services(3)
    layout, neighbour, back = (
        draw_layout(rng, service),
        draw_neighbour(rng, other),
        draw_layout(rng, admin),
    )
    host, far_host = rng.host(), f"{rng.pick(('cache', 'redis', 'store'))}-{rng.number(41, 60)}"
    net = f"10.{rng.number(1, 250)}.{rng.number(1, 250)}"
    near, far = (f"{net}.{each}" for each in rng.some(range(10, 120), 2))
    row, value = f"{service}:{rng.word()}", rng.token()
    cache = redis_server(rng, {row: value}, bind="0.0.0.0")
    failed = rng.wording(TEXTS["failed"])
    table, unit_name = (
        rng.pick(("filter", "host", "guard")),
        rng.pick(("firewall", "packetfilter")),
    )
    folder = rng.pick(("/etc/nftables.d", "/etc/firewall.d", "/etc/nft/rules"))
    conf = rng.pick(("/etc/nftables.conf", "/etc/firewall.nft"))
    added_file = f"{folder}/{rng.number(10, 90)}-{rng.word()}.nft"
    rule = rng.pick(
        (
            f"output ip daddr {far} tcp dport {cache.port} drop",
            f"input ip saddr {far} tcp sport {cache.port} drop",
            f"output ip daddr {net}.0/25 drop",
            f"input ip saddr {far} drop",
            f"output tcp dport {cache.port} drop",
        )
    )
    extra = f"{folder}/05-{rng.word()}.nft"
    admin_blocked = ScriptCheck(
        name="what was closed stays closed",
        script=f"! (: <>/dev/tcp/{far}/{back.port}) 2>&1",
        contains="refused",
    )
    word = rng.token()
    files = (
        HostFile(
            path=layout.program,
            text=render_program(rng, BASKET_PROGRAM, keep=f"{service}:", failed=failed),
        ),
        layout.settings(port=layout.port, cache_host=far, cache_port=cache.port, cache_timeout=0.4),
        HostFile(
            path=conf,
            text=NFTABLES_RULES.format(
                table=table, far=far, closed=back.port, why=f"{admin} is not for us", folder=folder
            ),
        ),
        HostFile(path=extra, text=f"add rule inet {table} input tcp dport {rng.port()} drop\n"),
        *neighbour.files,
    )
    cache_files = (
        *cache.files,
        HostFile(
            path=back.program,
            text=render_program(rng, ITEM_LIST_PROGRAM).replace("127.0.0.1", "0.0.0.0"),
        ),
        back.settings(port=back.port, data=f"{back.data}/items.json"),
        HostFile(path=f"{back.data}/items.json", text='["x"]'),
    )
    basket_works = HttpCheck(
        name="what is put in is kept", port=layout.port, path=f"/put/{word}", contains=word
    )
    cause = rng.wording(TEXTS["told"])
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                address=near,
                files=files,
                folders=(folder,),
                units=(
                    HostFile(path=f"{unit_name}.service", text=FIREWALL_UNIT.format(conf=conf)),
                    service_unit(service, layout.command),
                    neighbour.unit,
                ),
            ),
            HostSpec(
                name=far_host,
                address=far,
                files=cache_files,
                folders=cache.folders,
                units=(cache.unit, service_unit(admin, back.command)),
            ),
        ),
        alert=draw_alert(
            rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port, far=far_host
        ),
        healthy=(
            basket_works,
            admin_blocked,
            cache.has(row, value, host=1),
            HttpCheck(name=f"{admin} is up", port=back.port, path="/health", host=1),
            neighbour.answers,
        ),
        symptoms=(basket_works,),
        inject=(
            change_log_script(rng, cause.format(host=far_host)),
            f"echo 'add rule inet {table} {rule}' > {added_file}; systemctl restart {unit_name}",
        ),
        cure=(FaultTrigger(restart=(f"{unit_name}.service", layout.unit)),),
        collateral=(
            *neighbour.unharmed,
            admin_blocked,
            cache.has(row, value, host=1),
            UnchangedCheck(name="the other rules", path=extra),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the settings of the cache", path="/etc/redis", host=1),
        ),
        fault=FaultDescription(
            component=(added_file, unit_name, "firewall", "nft"),
            mechanism=("drop", "drops", "dropped", "firewall", "blocked", "blocks", "partition"),
            value=(far, f"{cache.port}", added_file),
        ),
        reference=(f"rm {added_file}; systemctl restart {unit_name}",),
        relief=(f"mv {added_file} /tmp/x; systemctl restart {unit_name}; mv /tmp/x {added_file}",),
        shortcut=(
            f"rm -f {added_file}; echo 'flush ruleset' > {conf}; systemctl restart {unit_name}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=(f"/put/{word}", "/health")),),
    )


SCENARIO = Scenario(
    name="network-partition",
    group="network",
    summary="a firewall rule cuts a host off from the cache on another host",
    draw=draw,
    needs=(*REDIS, "ip", "nft", "nsenter"),
)
