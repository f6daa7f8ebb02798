"""A deploy put an old unit file back: it starts the program where it was two releases ago."""

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import afresh
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, by_hand, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic

TEXTS = texts(__file__)

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    return 200, {"release": %%release%%, "name": conf["name"]}

serve(int(conf["port"]), answer)
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    major, minor = dice.number(1, 6), dice.number(3, 20)
    current, former = f"{major}.{minor}.{dice.number(0, 9)}", f"{major}.{minor - 1}.0"
    gone = f"{major}.{minor - 2}.{dice.number(0, 9)}"
    root = dice.pick((f"/opt/{service}-app", f"/srv/{service}/code", f"/var/www/{service}"))
    shape = dice.pick(("releases/{}/server.py", "{}/bin/main.py", "v{}/app.py", "rel-{}/run.py"))
    inner = f"{root}/{shape.format(current)}"
    older = f"{root}/{shape.format(former)}"
    wrong = dice.pick((f"{root}/{shape.format(gone)}", f"{root}/{inner.rpartition('/')[2]}"))
    title = dice.token()
    files = (
        File(path=inner, text=program(dice, BODY, release=current)),
        File(path=older, text=program(dice, BODY, release=former)),
        place.settings(port=place.port, name=title),
        File(path=f"{root}/DEPLOYED", text=_history(dice, gone, former, current)),
        *beside.files,
    )
    own = unit(service, f"{PYTHON} {inner} {place.conf}")
    unit_file = f"/etc/systemd/system/{place.unit}"
    serves = Http(name="the release in use", port=place.port, path="/about", contains=current)
    named = Http(name="its name", port=place.port, path="/about", contains=title)
    restart = f"systemctl daemon-reload; systemctl restart {service}"
    return Story(
        hosts=(Host(name=host, files=files, units=(own, beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(serves, named, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(serves, named),
        inject=(
            changes(dice, dice.wording(TEXTS["causes"]).format(service=service, current=current)),
            f"sed -i 's|{inner}|{wrong}|' {unit_file} && {restart}",
        ),
        cure=afresh(place.unit, place.port),
        collateral=(
            *beside.unharmed,
            Same(name="the releases", path=root),
            Same(name="its settings", path=place.conf),
        ),
        fault=Fault(
            component=(unit_file, place.unit, "ExecStart"),
            mechanism=("wrong path", "does not exist", "no such file", "old path", "stale path"),
            value=(wrong, inner),
        ),
        reference=(f"sed -i 's|{wrong}|{inner}|' {unit_file} && {restart}",),
        relief=(by_hand(place, command=f"{PYTHON} {inner} {place.conf}"),),
        shortcut=(f"sed -i 's|{wrong}|{older}|' {unit_file} && {restart}",),
        traffic=(Traffic(port=place.port, paths=("/about", "/health")),),
    )


def _history(dice: Dice, *releases: str) -> str:
    """As deploy tools leave it behind, newest last."""
    lines = [
        dice.wording(TEXTS["deployed"]).format(release=release, who=dice.word())
        for release in releases
    ]
    return "\n".join(lines) + "\n"


SCENARIO = Scenario(
    name="wrong-command",
    group="process",
    summary="ExecStart names a path that is gone since a deploy",
    draw=draw,
)
