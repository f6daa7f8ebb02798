"""The live ledger was removed by mistake and is the only copy of the orders, still open in the
service that writes it; an attempt to save it filled the disk. A restart frees the space and loses
every order."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import (
    DiskSpaceCheck,
    FaultTrigger,
    HostDisk,
    HostFile,
    HttpCheck,
    TrafficSpec,
)
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

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
LEDGER = """\
conf = settings(sys.argv[1])
file = open(conf["ledger"], "a+b", buffering=0)
size = os.fstat(file.fileno()).st_size
log("INFO", f"ledger {conf['ledger']} opened, {size} bytes of orders")

def answer(path):
    size = os.fstat(file.fileno()).st_size
    last = os.pread(file.fileno(), 64, max(0, size - 64)).split()
    return 200, {"bytes": size, "last": last[-1].decode() if last else "none"}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    disk, name, port = "/srv/volume", f"{service}-ledger", site.rng.port()
    conf, ledger, copy = f"/etc/{name}.conf", f"{disk}/ledger.dat", f"{disk}/ledger.saved"
    orders = "".join(f"order {n:08d} chair 12.50\n" for n in range(230_000))
    find = f"pid=$(systemctl show -p MainPID --value {name}); "
    find += "fd=$(ls -l /proc/$pid/fd | grep 'ledger.dat' | sed 's|.* \\([0-9]*\\) -> .*|\\1|')"
    kept = HttpCheck(name="the ledger has the last order", port=port, contains=site.token)
    return site.look_alike(
        alert="{host}: /srv/volume is full, {service} cannot accept uploads, du and df disagree; "
        "a clean-up earlier did not help",
        body=BODY,
        settings={"spool": f"{disk}/{service}", "mark": site.token},
        folders=[f"{disk}/{service}"],
        files=[
            HostFile(
                path=f"/opt/{name}/main.py",
                text=fill_program(LEDGER, style="{time} {level} {text}"),
            ),
            HostFile(path=conf, text=f"ledger={ledger}\nport={port}\n"),
            HostFile(path=ledger, text=f"{orders}order 00230000 {site.token}\n"),
            HostFile(path=f"{disk}/archive/2023.dat", text="kept\n" * 1000),
        ],
        units=[service_unit(name, f"{PYTHON_COMMAND} /opt/{name}/main.py {conf}")],
        disks=[HostDisk(disk, 10)],
        symptoms=[
            HttpCheck(
                name="uploads are stored", port=layout.port, path="/put", contains=site.token
            ),
            DiskSpaceCheck(name="there is room", path=disk, free_mb=2),
        ],
        healthy=[kept],
        inject=[f"{find}; rm {ledger}; cat /proc/$pid/fd/$fd > {copy} || true"],
        fix=[
            f"{find}; cat /proc/$pid/fd/$fd > /var/tmp/ledger; systemctl stop {name}; rm {copy}; "
            f"cp /var/tmp/ledger {ledger}; systemctl start {name}"
        ],
        cure=[FaultTrigger(restart=(f"{name}.service",))],
        same=[layout.conf, layout.program, conf, f"/opt/{name}", f"{disk}/archive"],
        collateral=[kept],
        moving=[f"{disk}/{service}"],
        traffic=[TrafficSpec(port=layout.port, paths=("/put",))],
    )
