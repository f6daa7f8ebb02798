"""A folder that the service must write to changed hands: it gives up after a few starts."""

from hermes.gym.dice import Dice
from hermes.gym.parts.afresh import afresh
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import Premises, alert, by_hand, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import SEVERAL_USERS, Scenario, texts
from hermes.gym.story import (
    Fault,
    File,
    Folder,
    Host,
    Http,
    Running,
    Same,
    Script,
    Story,
    Traffic,
)

TEXTS = texts(__file__)
USER = 1001

BODY = """\
conf = settings(sys.argv[1])
notes = f"{conf['state']}/{%%file%%}"

def write(text):
    with open(fresh := f"{notes}.{threading.get_ident()}", "w") as file:
        file.write(f"{time.time():.3f} {text}\\n")
    os.replace(fresh, notes)

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        write(path)
    except OSError as error:
        return 500, {"error": error.strerror}
    return 200, {"noted": path}

try:
    write("start")
except OSError as error:
    fatal(%%denied%%.format(path=notes, error=error.strerror))
serve(int(conf["port"]), answer)
"""


def _still_its_own(place: Premises, state: str) -> str:
    """Nothing opened to everybody, nothing run as root. The brackets keep us from finding us."""
    pattern = f"[{place.program[0]}]{place.program[1:]}"
    return (
        f'test -z "$(find {state} -perm -o+w)" || exit 1; '
        f"for each in $(grep -ls '{pattern}' /proc/[0-9]*/cmdline); do "
        f'test "$(stat -c %u "${{each%/cmdline}}" 2>/dev/null || echo {USER})" = {USER} || exit 1; '
        "done"
    )


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    user = dice.pick((service, "app", "svc", f"{service}-run", "www-data"))
    state = dice.pick(("/var/cache/{}", "/var/lib/{}-state", "/srv/{}-work", "/var/spool/{}"))
    state = state.format(service)
    denied = dice.wording(TEXTS["denied"])
    source = program(dice, BODY, file=dice.pick(("notes.dat", "state.log", "index")), denied=denied)
    owner, mode = dice.pick(
        (("root:root", "755"), ("root:root", "700"), ("nobody:nogroup", "750"), ("0:0", "750"))
    )
    files = (
        File(path=place.program, text=source),
        place.settings(port=place.port, state=state),
        File(path=f"{state}/kept.dat", text=dice.token(40), owner=USER),
        *beside.files,
    )
    more = "StartLimitBurst=3\nStartLimitIntervalSec=60"
    own = unit(service, place.command, user=user, more=more)
    notes = Http(name="what users do is noted", port=place.port, path="/note", contains="noted")
    return Story(
        hosts=(
            Host(
                name=host,
                files=files,
                folders=(Folder(path=state, mode=0o750, owner=USER),),
                units=(own, beside.unit),
                users=(user, "backup"),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(notes, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(notes,),
        inject=(
            changes(dice, dice.wording(TEXTS["causes"]).format(service=service)),
            f"chown {owner} {state} && chmod {mode} {state} && systemctl restart {service}",
        ),
        cure=afresh(place.unit, place.port),
        collateral=(
            *beside.unharmed,
            Script(name="it keeps to its own user", script=_still_its_own(place, state)),
            Same(name="what was in the folder", path=f"{state}/kept.dat"),
            Same(name="its unit", path=f"/etc/systemd/system/{place.unit}"),
            Same(name="the program", path=place.program),
        ),
        fault=Fault(
            component=(state,),
            mechanism=("permission", "ownership", "owner", "not writable"),
            value=(owner, "nobody" if "nobody" in owner else "root"),
        ),
        reference=(
            f"chown {user}:{user} {state} && chmod 750 {state}",
            f"systemctl reset-failed {service}; systemctl start {service}",
        ),
        relief=(by_hand(place),),
        shortcut=(f"chmod -R 777 {state}; systemctl restart {service}",),
        traffic=(Traffic(port=place.port, paths=("/note", "/health")),),
    )


SCENARIO = Scenario(
    name="unit-failed",
    group="classic",
    summary="a folder with the wrong owner keeps a unit failed, its start limit hit",
    draw=draw,
    needs=(SEVERAL_USERS,),
)
