"""The deleted file that is still open is a buffer, on purpose, with entries not yet sent; the disk
is full of the thumbnails of another service that is configured to keep all of them."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import DiskSpaceCheck, HostDisk, HostFile, HttpCheck, UnitRunningCheck
from hermes.gym.services.python_service import fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    path = f"{conf['spool']}/upload-{next(numbers)}.part"
    try:
        with open(path, "wb") as file:
            file.write(b"u" * (1 << 19))
        return 200, {"stored": conf["mark"]}
    except OSError as error:
        log("ERROR", f"cannot store {path}: {error.strerror}")
        return 507, {"error": "not stored"}
    finally:
        os.unlink(path)

serve(int(conf["port"]), answer)
"""
BUFFER = """\
conf = settings(sys.argv[1])
path = f"{conf['disk']}/buffer-{os.getpid()}.tmp"
file = open(path, "w+b", buffering=0)
os.unlink(path)
file.write(b"entry;" * (1 << 19))
log("INFO", "entries of partners are buffered until the link is back")
serve(int(conf["port"]), lambda path: (200, {"waiting": file.tell()}))
"""
THUMBS = """\
conf = settings(sys.argv[1])
while True:
    try:
        with open(f"{conf['disk']}/.thumbs/{time.time_ns()}", "wb") as file:
            file.write(b"t" * (1 << 18))
    except OSError:
        time.sleep(0.2)
    names = sorted(os.listdir(f"{conf['disk']}/.thumbs"))
    for name in names[: max(0, len(names) - int(conf["keep"]))]:
        os.unlink(f"{conf['disk']}/.thumbs/{name}")
    time.sleep(0.02)
"""


def draw(site: Site) -> LookAlike:
    disk, port, style = "/mnt/store", site.rng.port(), "{time} {level} {text}"
    buffer, thumbs = f"{site.service}-relay", f"{site.service}-thumbs"
    files = [
        HostFile(path=f"/opt/{buffer}.py", text=fill_program(BUFFER, style=style)),
        HostFile(path=f"/etc/{buffer}.conf", text=f"disk={disk}\nport={port}\n"),
        HostFile(path=f"/opt/{thumbs}.py", text=fill_program(THUMBS, style=style)),
        HostFile(path=f"/etc/{thumbs}.conf", text=f"disk={disk}\nkeep=3\n"),
    ]
    keep = f"sed -i 's/^keep=.*/keep={{}}/' /etc/{thumbs}.conf; systemctl restart {thumbs}"
    waiting = HttpCheck(name="entries wait in the buffer", port=port, contains="waiting")
    return site.look_alike(
        alert="{host}: file system /mnt/store is full, {service} cannot accept uploads, "
        "du and df disagree",
        body=BODY,
        settings={"spool": f"{disk}/{site.service}", "mark": site.token},
        folders=[f"{disk}/{site.service}", f"{disk}/.thumbs"],
        files=files,
        units=[
            service_unit(name, f"/usr/bin/python3 -S /opt/{name}.py /etc/{name}.conf")
            for name in (buffer, thumbs)
        ],
        disks=[HostDisk(disk, 12)],
        symptoms=[
            HttpCheck(
                name="uploads are stored", port=site.layout.port, path="/put", contains=site.token
            ),
            DiskSpaceCheck(name="there is room", path=disk, free_mb=2),
        ],
        healthy=[waiting],
        inject=[keep.format(5000), "sleep 3"],
        fix=[keep.format(3), "sleep 1"],
        settle=4.0,
        same=[site.layout.conf, site.layout.program, f"/etc/{buffer}.conf", f"/opt/{thumbs}.py"],
        collateral=[
            UnitRunningCheck(
                name="the buffer was not lost", unit=f"{buffer}.service", undisturbed=True
            )
        ],
        moving=[f"{disk}/.thumbs", f"{disk}/{site.service}"],
    )
