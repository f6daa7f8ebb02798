"""The verbose log level is the usual one and its log does not grow; the exports of another service,
configured to keep thousands instead of a few, fill the disk."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import DiskSpaceCheck, HostDisk, HostFile, HttpCheck
from hermes.gym.services.python_service import fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    number = time.time_ns()
    try:
        with open(f"{conf['orders']}/{number}.json", "w") as file:
            file.write('{"order": 1}' * 100)
    except OSError as error:
        log("ERROR", f"order {number} not stored: {error.strerror}")
        return 507, {"error": error.strerror}
    return 200, {"stored": number}

with open(conf["log"], "a") as file:
    file.write(f"log level {conf['log_level']}\\n")
serve(int(conf["port"]), answer)
"""
EXPORT = """\
conf = settings(sys.argv[1])
while True:
    try:
        with open(f"{conf['folder']}/export-{time.time_ns()}.csv", "wb") as file:
            file.write(b"row;" * (1 << 16))
    except OSError as error:
        log("WARN", f"export not written: {error.strerror}")
        time.sleep(0.2)
    names = sorted(os.listdir(conf["folder"]))
    for name in names[: max(0, len(names) - int(conf["keep"]))]:
        os.unlink(f"{conf['folder']}/{name}")
    time.sleep(0.02)
"""


def draw(site: Site) -> LookAlike:
    service, disk = site.service, "/data"
    log, exports, job = f"{disk}/log/{service}.log", f"{disk}/exports", f"{service}-export"
    conf, program = f"/etc/{job}.conf", f"/opt/{job}/export.py"
    keep = f"sed -i 's/^keep=.*/keep={{}}/' {conf}; systemctl restart {job}"
    old = "".join(f"{n:06} dump {site.token} {n * 7919 % 65521:x}\n" for n in range(160_000))
    return site.look_alike(
        alert="DiskSpaceCritical: /data on {host} is 100% full, {service} refuses orders (507)",
        body=BODY,
        settings={"log_level": "debug", "log": log, "orders": f"{disk}/orders"},
        folders=[f"{disk}/orders", exports],
        files=[
            HostFile(path=log, text=old),
            HostFile(path=program, text=fill_program(EXPORT, style="{time} {level} {text}")),
            HostFile(path=conf, text=f"folder={exports}\nkeep=4\n"),
        ],
        units=[service_unit(job, f"/usr/bin/python3 -S {program} {conf}")],
        disks=[HostDisk(disk, 14)],
        symptoms=[
            HttpCheck(
                name="orders are stored", port=site.layout.port, path="/order", contains="stored"
            ),
            DiskSpaceCheck(name="there is room", path=disk, free_mb=2),
        ],
        inject=[keep.format(4000), "sleep 3"],
        fix=[keep.format(4), "sleep 1"],
        settle=4.0,
        same=[site.layout.conf, site.layout.program, program],
        keep=[("the log begins as it did", f"head -c 4000000 {log} | sha256sum")],
        moving=[exports, f"{disk}/orders"],
    )
