"""The disk is full of uploads; the log beside them is long, but its level is meant and it is small
compared with what fills the disk."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostDisk, HostFile, HttpCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])

def put():
    try:
        with open(conf["store"] + "/probe.tmp", "w") as file:
            file.write("x" * 300000)
        os.unlink(conf["store"] + "/probe.tmp")
    except OSError as error:
        log("ERROR", f"cannot store: {error.strerror}")
        return 507, {"error": "no space left on device"}
    return 200, {"stored": conf["mark"]}

def answer(path):
    with open(conf["log"], "a") as file:
        try:
            file.write(f"debug {path}\\n"); file.flush()
        except OSError:
            pass
    return put() if path == "/put" else (200, {"status": "ok"})

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    disk, service, port = "/data", site.service, site.layout.port
    log = f"{disk}/{service}.log"
    fill = f"mkdir -p {disk}/uploads; head -c 40M /dev/zero > {disk}/uploads/batch-7.bin || true"
    return site.look_alike(
        alert="disk {host}:/data is full, {service} cannot store: no space left on device",
        body=BODY,
        settings={"store": disk, "log": log, "log_level": "debug", "mark": site.token},
        disks=[HostDisk(disk, 20)],
        files=[HostFile(path=log, text="debug /put\n" * 80_000)],
        symptoms=[
            HttpCheck(name="entries are stored", port=port, path="/put", contains=site.token)
        ],
        inject=[fill],
        fix=[f"rm -rf {disk}/uploads"],
        traffic=[TrafficSpec(port=port, paths=("/put", "/health"))],
        same=[site.layout.conf, site.layout.program],
        moving=[f"{disk}/probe.tmp"],
    )
