"""Owner and mode of the spool are right and a second service writes there; the unit of the service
was changed to run as another user."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.scenario_spec import HostFile, HostFolder, HttpCheck
from hermes.gym.services.python_service import fill_program, service_unit

NEEDS = (SEVERAL_USERS,)
BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    path = f"{conf['spool']}/{os.getpid()}-{next(numbers)}.part"
    try:
        with open(path, "w") as file:
            file.write(conf["mark"])
        os.unlink(path)
        return 200, {"stored": conf["mark"]}
    except OSError as error:
        log("ERROR", f"cannot write {path}: {error.strerror}")
        return 500, {"error": "not stored"}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    spool, port, second = "/var/spool/intake", site.rng.port(), f"{site.service}-partner"
    conf, own = f"/etc/{second}.conf", f"/etc/systemd/system/{site.service}.service"
    user = (
        f"sed -i 's/^User=.*/User={{}}/' {own}; systemctl daemon-reload; "
        f"systemctl restart {site.service}; sleep 0.5"
    )
    stores = HttpCheck(name="it stores", port=site.layout.port, path="/put", contains=site.token)
    return site.look_alike(
        alert="{service} on {host} rejects every upload with 500, health endpoint green",
        body=BODY,
        settings={"spool": spool, "mark": site.token},
        users=("www", "app"),
        unit_lines="User=app",
        folders=[HostFolder(path=spool, mode=0o750, owner=1002)],
        files=[
            HostFile(
                path=f"/opt/{second}.py", text=fill_program(BODY, style="{time} {level} {text}")
            ),
            HostFile(path=conf, text=f"port={port}\nspool={spool}\nmark={site.token}\n"),
            HostFile(path=f"{spool}/waiting.rec", text=site.rng.token(40), mode=0o600, owner=1002),
        ],
        units=[service_unit(second, f"/usr/bin/python3 -S /opt/{second}.py {conf}", user="app")],
        symptoms=[stores],
        healthy=[HttpCheck(name="so does the other", port=port, path="/put", contains=site.token)],
        inject=[user.format("www")],
        fix=[user.format("app")],
        same=[f"{spool}/waiting.rec", conf, site.layout.conf, site.layout.program],
        collateral=[
            HttpCheck(name="the other still stores", port=port, path="/put", contains="stored")
        ],
        keep=[("owner and mode", f"stat -c '%u %g %a' {spool} {spool}/waiting.rec")],
        moving=[spool],
    )
