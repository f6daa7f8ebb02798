"""The file of variables lost a line that the service cannot do without."""

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import afresh
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, by_hand, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic

TEXTS = texts(__file__)

BODY = """\
try:
    port, *facts = [os.environ[name] for name in %%names%%]
except KeyError as error:
    fatal(%%missing%%.format(name=error.args[0]))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"facts": facts}

serve(int(port), answer)
"""

NAMES = (
    "REGION", "CURRENCY", "WAREHOUSE", "TENANT", "QUEUE_NAME", "BUCKET", "REALM", "DEFAULT_LOCALE",
    "SHARD", "UPSTREAM_NAME", "MERCHANT_ID", "SITE_CODE",
)  # fmt: skip


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    prefix = dice.pick((f"{service.upper()}_", "APP_", "", f"{service[:3].upper()}_"))
    names = [f"{prefix}{name}" for name in dice.some(NAMES, dice.number(3, 5))]
    port_name = f"{prefix}PORT"
    now = {name: f"{dice.word()}-{dice.token(5)}" for name in names}
    before = now | {name: f"{dice.word()}-{dice.token(5)}" for name in names[:2]}
    lost = dice.pick(names[:2])
    paths = ("/etc/default/{}", "/etc/sysconfig/{}", "/etc/{}/env", "/opt/{}/.env")
    path = dice.pick(paths).format(service)
    copies = dice.pick((f"/var/backups/{service}", f"/srv/copies/{service}", "/var/backups/env"))
    month = dice.number(2, 9)
    new, old = (
        f"{copies}/{service}.2026-{month:02}-14",
        f"{copies}/{service}.2026-{month - 1:02}-03",
    )
    missing = dice.wording(TEXTS["missing"])
    source = program(dice, BODY, names=(port_name, *names), missing=missing)
    files = (
        File(path=place.program, text=source),
        File(path=path, text=_lines(port_name, place.port, now)),
        File(path=new, text=_lines(port_name, place.port, now)),
        File(path=old, text=_lines(port_name, place.port, before)),
        *beside.files,
    )
    command = f"{PYTHON} {place.program}"
    own = unit(service, command, more=f"EnvironmentFile={path}")
    facts = [
        Http(name=f"{name} is in use", port=place.port, path="/facts", contains=value)
        for name, value in now.items()
    ]
    given = " ".join(f"{name}={value}" for name, value in now.items())
    return Story(
        hosts=(Host(name=host, files=files, units=(own, beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(*facts, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=tuple(facts),
        inject=(
            changes(dice, dice.wording(TEXTS["causes"]).format(service=service, copies=copies)),
            f"sed -i '/^{lost}=/d' {path} && systemctl restart {service}",
        ),
        cure=afresh(place.unit, place.port),
        collateral=(
            *beside.unharmed,
            Same(name="the copies", path=copies),
            Same(name="the program", path=place.program),
        ),
        fault=Fault(
            component=(path, "EnvironmentFile"),
            mechanism=("missing", "not set", "unset", "undefined", "removed"),
            value=(lost,),
        ),
        reference=(f"grep '^{lost}=' {new} >> {path} && systemctl restart {service}",),
        relief=(by_hand(place, before=f"{port_name}={place.port} {given}", command=command),),
        shortcut=(f"cp {old} {path}; systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/facts", "/health")),),
    )


def _lines(port_name: str, port: int, values: dict[str, str]) -> str:
    every = {port_name: f"{port}", **values}
    return "".join(f"{name}={value}\n" for name, value in every.items())


SCENARIO = Scenario(
    name="missing-variable",
    group="process",
    summary="a variable is gone from the environment file; the service refuses to start",
    draw=draw,
)
