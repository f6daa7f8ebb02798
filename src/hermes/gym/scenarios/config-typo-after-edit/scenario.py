"""The configuration was edited by hand, and the service no longer starts."""

import json

from hermes.gym.scenario_builder import (
    HttpCheck,
    ScenarioBuilder,
    UnitRunningCheck,
    build_scenario,
    shop_service,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    service, other = rng.services(2)
    build.host, port, other_port, item = rng.host(), rng.port(), rng.port(), rng.token()
    right, wrong = rng.number(2, 16), rng.pick(("auto", "8x", "many", "4;", "0", "4O", "256"))
    files, unit = shop_service(service, port, json.dumps([item, rng.word()]), workers=right)
    other_files, other_unit = shop_service(other, other_port, json.dumps([rng.word()]))
    build.files(*files, *other_files)
    build.units(unit, other_unit)

    conf = f"/etc/{service}/{service}.conf"
    put = f"sed -i 's/^workers = .*/workers = {{}}/' {conf}"
    beside = HttpCheck(name="the service beside it answers", port=other_port, path="/health")
    build.alert("P1", service=service, port=port, max_minutes=9)
    build.symptoms(
        HttpCheck(name="the right items are served", port=port, path="/items", contains=item)
    )
    build.healthy(beside)
    build.inject(
        f"cp {conf} {conf}.bak && {put.format(wrong)}", f"systemctl restart {service} || true"
    )
    build.trigger(restart=(f"{service}.service",))
    build.collateral(
        beside,
        UnitRunningCheck(
            name="the service beside it was left alone", unit=f"{other}.service", seconds=0.2
        ),
        ("its data", f"/srv/{service}"),
        ("the program", f"/opt/{service}"),
    )
    build.fault(
        component=(conf, f"{service}.conf", "configuration"),
        mechanism="invalid, workers, typo, not a number",
        value=(wrong, "workers"),
    )
    build.responses(
        reference=(
            put.format(right),
            f"systemctl reset-failed {service}; systemctl restart {service}",
        ),
        futile=f"(cd /srv && nohup python3 -c 'import http.server as h; "
        f'h.HTTPServer(("127.0.0.1", {port}), h.SimpleHTTPRequestHandler).serve_forever()\' '
        ">/dev/null 2>&1 &)",
        shortcut=(
            put.format(right),
            f"echo '[\"{item}\"]' > /srv/{service}/items.json; systemctl restart {service}",
        ),
    )
    build.traffic("/items", "/health", port=port)


SCENARIO = build_scenario(
    __file__, draw, "process", "a service does not start after a hand edit of its configuration"
)
