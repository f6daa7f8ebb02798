"""The configuration was edited by hand, and the service no longer starts."""

import json

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostSpec,
    HttpCheck,
    ScenarioAlert,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import shop_service

TEXTS = texts(__file__)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    host, port, other_port = rng.host(), rng.port(), rng.port()
    item = rng.token()
    right, wrong = rng.number(2, 16), rng.pick(("auto", "8x", "many", "4;", "0", "4O", "256"))
    files, unit = shop_service(service, port, json.dumps([item, rng.word()]), workers=right)
    other_files, other_unit = shop_service(other, other_port, json.dumps([rng.word()]))
    conf = f"/etc/{service}/{service}.conf"
    alert = rng.wording(TEXTS["alerts"]).format(
        service=service, host=host, port=port, minutes=rng.number(2, 9)
    )
    answers = HttpCheck(name="the right items are served", port=port, path="/items", contains=item)
    beside = HttpCheck(name="the service beside it answers", port=other_port, path="/health")
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=(*files, *other_files), units=(unit, other_unit)),),
        alert=ScenarioAlert(
            title=alert,
            text=alert,
            severity="P1",
            labels={"service": service, "instance": f"{host}:{port}"},
        ),
        healthy=(answers, beside),
        symptoms=(answers,),
        inject=(
            f"cp {conf} {conf}.bak && sed -i 's/^workers = .*/workers = {wrong}/' {conf}",
            f"systemctl restart {service} || true",
        ),
        cure=(FaultTrigger(restart=(f"{service}.service",)),),
        collateral=(
            beside,
            UnitRunningCheck(
                name="the service beside it was left alone", unit=f"{other}.service", seconds=0.2
            ),
            UnchangedCheck(name="its data", path=f"/srv/{service}"),
            UnchangedCheck(name="the program", path=f"/opt/{service}"),
        ),
        fault=FaultDescription(
            component=(conf, f"{service}.conf", "configuration"),
            mechanism=("invalid", "workers", "typo", "not a number"),
            value=(wrong, "workers"),
        ),
        reference=(
            f"sed -i 's/^workers = .*/workers = {right}/' {conf}",
            f"systemctl reset-failed {service}; systemctl restart {service}",
        ),
        relief=(
            f"(cd /srv && nohup python3 -c 'import http.server as h; "
            f'h.HTTPServer(("127.0.0.1", {port}), h.SimpleHTTPRequestHandler).serve_forever()\' '
            ">/dev/null 2>&1 &)",
        ),
        shortcut=(
            f"sed -i 's/^workers = .*/workers = {right}/' {conf}",
            f"echo '[\"{item}\"]' > /srv/{service}/items.json; systemctl restart {service}",
        ),
        traffic=(TrafficSpec(port=port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="config-typo-after-edit",
    group="process",
    summary="a service does not start after a hand edit of its configuration",
    draw=draw,
)
