"""Somebody edited the configuration by hand; the service starts no more."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.shop import shop
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Alert, Fault, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    host, port, quiet = dice.host(), dice.port(), dice.port()
    item = dice.token()
    right, wrong = dice.number(2, 16), dice.pick(("auto", "8x", "many", "4;", "0", "4O", "256"))
    files, unit = shop(service, port, json.dumps([item, dice.word()]), workers=right)
    more, neighbour = shop(other, quiet, json.dumps([dice.word()]))
    conf = f"/etc/{service}/{service}.conf"
    alert = dice.wording(TEXTS["alerts"]).format(
        service=service, host=host, port=port, minutes=dice.number(2, 9)
    )
    answers = Http(name="the right items are served", port=port, path="/items", contains=item)
    beside = Http(name="the service beside it answers", port=quiet, path="/health")
    return Story(
        hosts=(Host(name=host, files=(*files, *more), units=(unit, neighbour)),),
        alert=Alert(
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
        cure=(Trigger(restart=(f"{service}.service",)),),
        collateral=(
            beside,
            Running(
                name="the service beside it was left alone", unit=f"{other}.service", seconds=0.2
            ),
            Same(name="its data", path=f"/srv/{service}"),
            Same(name="the program", path=f"/opt/{service}"),
        ),
        fault=Fault(
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
        traffic=(Traffic(port=port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="config-typo-after-edit",
    group="process",
    summary="a service does not start after a hand edit of its configuration",
    draw=draw,
)
