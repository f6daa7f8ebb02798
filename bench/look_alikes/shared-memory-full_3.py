"""The buffers in /dev/shm are those of a program that runs and needs them; the job that keeps its
buffers uses the same prefix and has kept two small ones."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import service_unit

BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path != "/render":
        return 200, {"status": "ok"}
    name = f"/dev/shm/{conf['prefix']}-work"
    try:
        with open(name, "wb") as file:
            file.write(b"p" * (3 << 20))
        return 200, {"picture": conf["mark"]}
    except OSError as error:
        log("ERROR", f"cannot write {name}: {error.strerror}")
        return 500, {"error": "render failed"}
    finally:
        os.path.exists(name) and os.unlink(name)

serve(int(conf["port"]), answer)
"""
LIVE = """\
import mmap, os, sys, time
held = []
while True:
    if os.path.exists("/run/grow") and len(held) < 14:
        f = open(f"/dev/shm/{sys.argv[1]}-{len(held)}", "w+b"); f.write(b"x" * (1 << 20)); f.flush()
        held.append((f, mmap.mmap(f.fileno(), 0)))
    time.sleep(0.05)
"""


def draw(site: Site) -> LookAlike:
    prefix, conf = f"{site.token}-frames", "/etc/frames.conf"
    live = "/opt/renderd/renderd.py"
    return site.look_alike(
        alert="SLO burn: {service} /render on {host}:{port}, shared memory full",
        body=BODY,
        settings={"prefix": site.service, "mark": site.token},
        files=[
            HostFile(path=live, text=LIVE),
            HostFile(path=conf, text=f"frames = 2\nprefix = {prefix}\nkeep_frames = yes\n"),
            HostFile(path="/etc/cron.d/frames", text=f"7 * * * * root /bin/true {conf}\n"),
        ],
        units=[service_unit("renderd", f"/usr/bin/python3 {live} {prefix}")],
        symptoms=[
            HttpCheck(
                name="pictures come", port=site.layout.port, path="/render", contains=site.token
            )
        ],
        inject=["touch /run/grow; sleep 2"],
        fix=["rm /run/grow; systemctl restart renderd; rm -f /dev/shm/*-frames-*"],
        settle=1.0,
        same=[conf, live, "/etc/cron.d/frames"],
        keep=[("live buffers", f"ls /dev/shm | grep -c {prefix}")],
        traffic=[TrafficSpec(port=site.layout.port, paths=("/render", "/health"))],
        moving=[f"/dev/shm/{site.service}-work"],
    )
