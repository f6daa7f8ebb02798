"""A tidy job hands the spool to the wrong user: the service may not write there any more."""

from hermes.gym.dice import Dice
from hermes.gym.episode import FIRST_USER
from hermes.gym.parts.hands import others_kept
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import alert, changes, neighbour, premises
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
    Trigger,
)

TEXTS = texts(__file__)

BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def put():
    path = f"{conf['spool']}/{os.getpid()}-{next(numbers)}.part"
    try:
        with open(path, "w") as file:
            file.write(conf["mark"])
        os.unlink(path)
        return 200, {"stored": conf["mark"]}
    except OSError as error:
        log("ERROR", %%denied%%.format(path=path, error=error.strerror))
        return 500, {"error": "not stored"}

def answer(path):
    if path == "/put":
        return put()
    return (200, {"status": "ok"}) if path == "/health" else (404, {"error": "no such page"})

serve(int(conf["port"]), answer)
"""

TIDY = """\
#!/bin/bash
# Old parts go, what is left belongs to the owner that {conf} names.
owner=$(sed -n 's/^owner=//p' {conf})
days=$(sed -n 's/^days=//p' {conf})
find {spool} -name '*.part' -mtime +"$days" -delete
chown -R "$owner:$owner" {spool}
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    owner, wrong = dice.some(("www", "svc", "app", "intake", "runner", "daemon"), 2)
    wrong = dice.pick((wrong, "root"))
    mark, spool = dice.token(), f"/var/spool/{service}-{dice.word()}"
    tidy = f"/opt/{dice.pick(('ops', 'scripts', 'maintenance'))}/tidy-{service}"
    own = File(path=f"{tidy}.conf", text=f"owner={owner}\ndays={dice.number(3, 30)}\n")
    users = (owner, wrong) if wrong != "root" else (owner,)
    archive = f"{place.data}/archive"
    files = (
        File(path=place.program, text=program(dice, BODY, denied=dice.wording(TEXTS["denied"]))),
        place.settings(port=place.port, spool=spool, mark=mark),
        File(path=f"{tidy}.sh", text=TIDY.format(conf=own.path, spool=spool), mode=0o755),
        own,
        File(path=f"/etc/cron.d/tidy-{service}", text=f"15 * * * * root {tidy}.sh\n"),
        File(path=f"{archive}/{dice.token()}.rec", text=dice.token(30), owner=FIRST_USER),
        *beside.files,
    )
    stores = Http(name="entries are stored", port=place.port, path="/put", contains=mark)
    return Story(
        hosts=(
            Host(
                name=host,
                users=users,
                files=files,
                folders=(Folder(path=spool, mode=0o750, owner=FIRST_USER),),
                units=(unit(service, place.command, user=owner), beside.unit),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(stores, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(stores,),
        inject=(
            changes(dice, f"tidy job of {dice.word()} reviewed"),
            f"sed -i 's/^owner=.*/owner={wrong}/' {own.path} && {tidy}.sh",
        ),
        cure=(Trigger(cron=tidy), Trigger(restart=(place.unit,))),
        collateral=(
            *beside.unharmed,
            Same(name="the archive", path=archive),
            Same(name="its settings", path=place.conf),
            Same(name="its unit", path=f"/etc/systemd/system/{place.unit}"),
            Same(name="the timetable", path="/etc/cron.d"),
            Same(name="the tidy job", path=f"{tidy}.sh"),
            others_kept("the other settings of the tidy job", own, "owner"),
            Script(
                name="the spool is not open to everybody",
                script=f'test -z "$(find {spool} -perm /o=w)"',
            ),
        ),
        fault=Fault(
            component=(spool, own.path, f"{tidy}.sh", service),
            mechanism=("owner", "ownership", "chown", "permission denied", "permissions"),
            value=(wrong, f"owner={wrong}"),
        ),
        reference=(
            f"sed -i 's/^owner=.*/owner={owner}/' {own.path}",
            f"chown -R {owner}:{owner} {spool}",
        ),
        relief=(f"chown -R {owner}:{owner} {spool}",),
        shortcut=(f"chmod -R 777 {spool}",),
        traffic=(Traffic(port=place.port, paths=("/put", "/health")),),
    )


SCENARIO = Scenario(
    name="ownership-drift",
    group="files",
    summary="a tidy job gives the spool to another user, and the service cannot write to it",
    draw=draw,
    needs=(SEVERAL_USERS,),
)
