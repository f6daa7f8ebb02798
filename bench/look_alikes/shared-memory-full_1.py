"""A job keeps its buffers in /dev/shm on purpose, and a viewer reads them; the shared memory is
full because the size of the viewer's own ring was raised."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck
from hermes.gym.services.python_service import fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
numbers = iter(range(1, 1 << 30))

def answer(path):
    if path != "/render":
        return 200, {"status": "ok"}
    path = f"/dev/shm/{conf['prefix']}-{os.getpid()}-{next(numbers)}"
    try:
        with open(path, "wb") as file:
            file.write(b"p" * (3 << 20))
        return 200, {"picture": conf["mark"]}
    except OSError as error:
        log("ERROR", f"cannot allocate segment {path}: {error.strerror}")
        return 500, {"error": "render failed"}
    finally:
        os.unlink(path)

serve(int(conf["port"]), answer)
"""
VIEWER = """\
conf = settings(sys.argv[1])
for name in os.listdir("/dev/shm"):
    if name.startswith(conf["ring"]):
        os.unlink(f"/dev/shm/{name}")
for number in range(int(conf["ring_mb"])):
    try:
        with open(f"/dev/shm/{conf['ring']}-{number:03d}", "wb") as file:
            file.write(b"r" * (1 << 20))
    except OSError as error:
        log("WARN", f"ring is short: {error.strerror}")

def answer(path):
    try:
        return 200, {"frame": open(f"/dev/shm/{conf['frames']}-000").read(16)}
    except OSError as error:
        return 500, {"error": error.strerror}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    job, viewer, port = f"{site.service}-frames", f"{site.service}-viewer", site.rng.port()
    conf = f"/etc/{viewer}.conf"
    frames = [
        HostFile(path=f"/dev/shm/{job}-{n:03d}", text=f"{site.token}{'f' * 500_000}")
        for n in range(4)
    ]
    size = f"sed -i 's/^ring_mb=.*/ring_mb={{}}/' {conf}; systemctl restart {viewer}; sleep 1"
    return site.look_alike(
        alert="{service} on {host}: every picture request fails with 500, disk usage looks normal",
        body=BODY,
        settings={"prefix": site.service, "mark": site.token},
        files=[
            *frames,
            HostFile(
                path=f"/opt/{viewer}.py", text=fill_program(VIEWER, style="{time} {level} {text}")
            ),
            HostFile(path=conf, text=f"port={port}\nring={viewer}\nframes={job}\nring_mb=2\n"),
            HostFile(path=f"/etc/{job}.conf", text="# the viewer reads them\nkeep_frames=yes\n"),
            HostFile(
                path=f"/opt/{job}.sh", text=f"#!/bin/sh\n. /etc/{job}.conf\nexit 0\n", mode=0o755
            ),
            HostFile(path=f"/etc/cron.d/{job}", text=f"4 4 * * * root /opt/{job}.sh\n"),
        ],
        units=[service_unit(viewer, f"/usr/bin/python3 -S /opt/{viewer}.py {conf}")],
        symptoms=[
            HttpCheck(
                name="pictures come", port=site.layout.port, path="/render", contains=site.token
            )
        ],
        healthy=[HttpCheck(name="the viewer shows a frame", port=port, contains=site.token)],
        inject=[size.format(40)],
        fix=[size.format(2)],
        same=[
            *(each.path for each in frames),
            f"/etc/{job}.conf",
            f"/opt/{viewer}.py",
            site.layout.conf,
            site.layout.program,
        ],
    )
