"""A firewall rule of one host blocks the cache on another host."""

from hermes.gym.scenario_builder import (
    ITEM_LIST_PROGRAM,
    REDIS_CLIENT,
    REDIS_NEEDS,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioBuilder,
    UnchangedCheck,
    build_scenario,
    redis_server,
    script_check,
    service_unit,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, back = build.draw_services(2, neighbour_at=1)
    far_host = f"{rng.pick(('cache', 'redis', 'store'))}-{rng.number(41, 60)}"
    net = f"10.{rng.number(1, 250)}.{rng.number(1, 250)}"
    near, far = (f"{net}.{each}" for each in rng.some(range(10, 120), 2))
    row, value = f"{app.name}:{rng.word()}", rng.token()
    cache = redis_server(rng, {row: value}, bind="0.0.0.0")
    failed, table = build.wording("failed"), rng.pick(("filter", "host", "guard"))
    unit = rng.pick(("firewall", "packetfilter"))
    folder = rng.pick(("/etc/nftables.d", "/etc/firewall.d", "/etc/nft/rules"))
    conf = rng.pick(("/etc/nftables.conf", "/etc/firewall.nft"))
    added = f"{folder}/{rng.number(10, 90)}-{rng.word()}.nft"
    rule = rng.pick(
        (
            f"output ip daddr {far} tcp dport {cache.port} drop",
            f"input ip saddr {far} tcp sport {cache.port} drop",
            f"output ip daddr {net}.0/25 drop",
            f"input ip saddr {far} drop",
            f"output tcp dport {cache.port} drop",
        )
    )
    extra, word = f"{folder}/05-{rng.word()}.nft", rng.token()
    facts = {"table": table, "far": far, "closed": back.port, "folder": folder}
    rules = build.source("nftables.nft.in").format(**facts, why=f"{back.name} is not for us")
    build.host_options(address=near)
    build.folders(folder)
    build.units(
        HostFile(path=f"{unit}.service", text=build.source("firewall.service.in").format(conf=conf))
    )
    build.start(
        app, REDIS_CLIENT + build.source("basket.py.in"), keep=f"{app.name}:", failed=failed
    )
    build.settings(app, port=app.port, cache_host=far, cache_port=cache.port, cache_timeout=0.4)
    build.file(conf, rules)
    build.file(extra, f"add rule inet {table} input tcp dport {rng.port()} drop\n")
    program = build.render(ITEM_LIST_PROGRAM).replace("127.0.0.1", "0.0.0.0")
    items_file = f"{back.data}/items.json"
    build.other_host(
        HostSpec(
            name=far_host,
            address=far,
            files=(
                *cache.files,
                HostFile(path=back.program, text=program),
                back.settings(port=back.port, data=items_file),
                HostFile(path=items_file, text='["x"]'),
            ),
            folders=cache.folders,
            units=(cache.unit, service_unit(back.name, back.command)),
        )
    )

    admin_blocked = script_check(
        "what was closed stays closed",
        f"! (: <>/dev/tcp/{far}/{back.port}) 2>&1",
        contains="refused",
    )
    cause, restart = build.wording("told", host=far_host), f"systemctl restart {unit}"
    build.alert("P1", far=far_host)
    build.symptoms(app.http("what is put in is kept", f"/put/{word}", word))
    build.healthy(
        admin_blocked,
        cache.has(row, value, host=1),
        HttpCheck(name=f"{back.name} is up", port=back.port, path="/health", host=1),
    )
    build.inject(build.changes(cause), f"echo 'add rule inet {table} {rule}' > {added}; {restart}")
    build.trigger(restart=(f"{unit}.service", app.unit))
    build.collateral(
        admin_blocked,
        cache.has(row, value, host=1),
        ("the other rules", extra),
        ("the settings of the service", app.conf),
        UnchangedCheck(name="the settings of the cache", path="/etc/redis", host=1),
    )
    build.fault(
        component=(added, unit, "firewall", "nft"),
        mechanism="drop, drops, dropped, firewall, blocked, blocks, partition",
        value=(far, f"{cache.port}", added),
    )
    build.responses(
        reference=f"rm {added}; {restart}",
        relief=f"mv {added} /tmp/x; {restart}; mv /tmp/x {added}",
        shortcut=f"rm -f {added}; echo 'flush ruleset' > {conf}; {restart}",
    )
    build.traffic(f"/put/{word}", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "network",
    "a firewall rule cuts a host off from the cache on another host",
    needs=(*REDIS_NEEDS, "ip", "nft", "nsenter"),
)
