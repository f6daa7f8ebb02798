"""The service keeps what it cannot deliver, and its collector is down because its folder was
moved; a cache limit of 0 switches the cache off, and is intended."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
cache, unsent = {}, []
state = "off" if conf["cache_limit"] == "0" else "on"
log("INFO", f"cache_limit={conf['cache_limit']}, the cache is {state}")

def deliver():
    while True:
        unsent.append(bytearray(b"e" * (1 << 20)))
        try:
            line = _socket.socket()
            line.connect(("127.0.0.1", int(conf["collector"])))
            line.close()
            unsent.clear()
        except OSError as error:
            if len(unsent) % 8 == 0:
                held = f"{len(unsent)} MB held in memory, not delivered"
                log("WARN", f"{held} to port {conf['collector']}: {error.strerror}")
        time.sleep(0.04)

_thread.start_new_thread(deliver, ())
serve(int(conf["port"]), lambda path: (200, {"mark": conf["mark"]}))
"""
COLLECTOR = """\
conf = settings(sys.argv[1])
if not os.path.isdir(conf["folder"]):
    fatal(f"no folder {conf['folder']}")
serve(int(conf["port"]), lambda path: (200, {"status": "ok"}))
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    collector, port = f"{service}-collector", site.rng.port()
    conf, folder = f"/etc/{collector}.conf", f"/srv/{service}-events"
    text = fill_program(COLLECTOR, style="{time} {level:5} {text}")
    return site.look_alike(
        alert="{service} on {host} is restarted every few seconds, OOMKill, memory climbs steadily",
        body=BODY,
        settings={"cache_limit": 0, "collector": port, "mark": site.token},
        files=[
            HostFile(path=f"/opt/{collector}/main.py", text=text),
            HostFile(path=conf, text=f"port={port}\nfolder={folder}\n"),
            HostFile(path=f"{folder}/2024.log", text="kept\n"),
            HostFile(path=f"{layout.conf}.sample", text="# 0 switches it off\ncache_limit=64\n"),
        ],
        units=[service_unit(collector, f"{PYTHON_COMMAND} /opt/{collector}/main.py {conf}")],
        unit_lines="MemoryMax=64M\nStartLimitIntervalSec=0",
        symptoms=[UnitRunningCheck(name="it lives for long", unit=layout.unit, seconds=6.0)],
        inject=[f"mv {folder} {folder}.moved; systemctl restart {collector} || true"],
        fix=[
            f"mv {folder}.moved {folder}; systemctl reset-failed {collector}; "
            f"systemctl restart {collector}; sleep 4"
        ],
        same=[layout.conf, f"{layout.conf}.sample", conf, layout.program],
        settle=4.0,
        rhythm_s=5.0,
    )
