"""The folder with the service's libraries was moved; Python looks for it where it was."""

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import afresh
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, by_hand, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic

TEXTS = texts(__file__)

BODY = """\
import %%module%%

conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"rate": %%module%%.rate(int(conf["level"])), "by": %%module%%.VERSION}

serve(int(conf["port"]), answer)
"""
MODULES = ("ratebook", "taxtable", "pricing_rules", "geoindex", "fxrates", "discounts", "zonemap")


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    module, level = dice.pick(MODULES), dice.number(2, 50)
    factor, add = dice.number(3, 90), dice.number(100, 999)
    version, former = f"{dice.number(2, 9)}.{dice.number(0, 30)}", f"1.{dice.number(0, 30)}"
    home = dice.pick((f"/opt/{service}", f"/srv/{service}", f"/var/lib/{service}"))
    was = f"{home}/{dice.pick(('vendor', 'lib', 'site', 'libs'))}"
    now = f"{home}/{dice.pick(('vendored', 'third-party', 'deps', 'packages'))}/{dice.word()}"
    trap = f"{dice.pick(('/var/backups', '/root', '/srv/old'))}/{service}-libs-{former}"
    source = program(dice, BODY.replace("%%module%%", module))
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, level=level),
        File(path=f"{was}/{module}.py", text=_module(version, factor, add)),
        File(path=f"{was}/{dice.word()}_extra.py", text="UNUSED = True\n"),
        File(path=f"{trap}/{module}.py", text=_module(former, factor - 1, add)),
        *beside.files,
    )
    own = unit(service, place.command, more=f"Environment=PYTHONPATH={was}")
    unit_file = f"/etc/systemd/system/{place.unit}"
    right = Http(
        name="the right rate",
        port=place.port,
        path="/rate",
        contains=f'"rate": {level * factor + add},',
    )
    restart = f"systemctl daemon-reload; systemctl restart {service}"
    told = dice.wording(TEXTS["causes"]).format(service=service)
    return Story(
        hosts=(Host(name=host, files=files, units=(own, beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(right, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(right,),
        inject=(
            changes(dice, told),
            f"mkdir -p {now.rpartition('/')[0]} && mv {was} {now} && systemctl restart {service}",
        ),
        cure=afresh(place.unit, place.port),
        collateral=(
            *beside.unharmed,
            Same(name="the libraries of an older release", path=trap),
            Same(name="the program", path=place.program),
            Same(name="its settings", path=place.conf),
        ),
        fault=Fault(
            component=(module, "PYTHONPATH", was),
            mechanism=("ModuleNotFoundError", "No module named", "moved", "cannot import"),
            value=(was, now),
        ),
        reference=(f"sed -i 's|PYTHONPATH={was}|PYTHONPATH={now}|' {unit_file} && {restart}",),
        relief=(by_hand(place, before=f"PYTHONPATH={now}"),),
        shortcut=(
            f"mkdir -p {was}; printf 'VERSION = \"0\"\\ndef rate(level): return level\\n' "
            f"> {was}/{module}.py; systemctl restart {service}",
        ),
        traffic=(Traffic(port=place.port, paths=("/rate", "/health")),),
    )


def _module(version: str, factor: int, add: int) -> str:
    return f'VERSION = "{version}"\n\n\ndef rate(level):\n    return level * {factor} + {add}\n'


SCENARIO = Scenario(
    name="missing-module",
    group="process",
    summary="a library folder was moved away from PYTHONPATH; the import fails",
    draw=draw,
)
