"""A mirror is configured to read its downloads much later, so they wait in the memory of the
service; the cache has a limit in megabytes, and 0 entries means that nothing else limits it."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, ScriptCheck, UnchangedCheck, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
cache, most, opened = {}, int(conf["cache_mb"]), [0]
log("INFO", f"cache_limit={conf['cache_limit']} (0: by size only), cache_mb={most}")

def answer(path):
    if path.startswith("/page/"):
        cache[path] = bytearray(b"p" * (1 << 20))
        if len(cache) > most:
            del cache[next(iter(cache))]
        return 200, {"page": path, "mark": conf["mark"]}
    if path == "/bundle":
        opened[0] += 1
        if opened[0] % 10 == 0:
            log("INFO", f"cache holds {len(cache)} MB; download {opened[0]} of 5 MB begun")
        return 200, "b" * (5 << 20)
    return 200, {"mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""
MIRROR = """\
conf = settings(sys.argv[1])

def fetch():
    try:
        with socket.create_connection(("127.0.0.1", int(conf["source"])), 2) as line:
            line.sendall(b"GET /bundle HTTP/1.0\\r\\n\\r\\n")
            time.sleep(float(conf["read_after_s"]))
            size = 0
            while piece := line.recv(65536):
                size += len(piece)
        with open(conf["log"], "a") as file:
            file.write(f"{size}\\n")
    except OSError as error:
        log("WARN", f"download failed: {error}")

while True:
    _thread.start_new_thread(fetch, ())
    time.sleep(0.25)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    mirror, style = f"{service}-mirror", "{time} {level:5} {text}"
    conf, done = f"/etc/{mirror}.conf", f"/var/log/{mirror}.log"
    sample = f"# 0: limited by cache_mb only\ncache_limit{layout.sign}8\n"
    reconfigure = (
        f"sed -i 's/^read_after_s=.*/read_after_s={{}}/' {conf}; systemctl restart {mirror}"
    )
    whole = f"n=$(wc -l < {done}); sleep 1; tail -n +$((n + 1)) {done} | grep -q '^52[0-9]*$'"
    return site.look_alike(
        alert="{service} on {host} is restarted every few seconds, OOMKill, RSS climbs steadily",
        body=BODY,
        settings={"cache_limit": 0, "cache_mb": 6, "mark": site.token},
        files=[
            HostFile(path=f"{layout.conf}.sample", text=sample),
            HostFile(path=f"/opt/{mirror}/main.py", text=fill_program(MIRROR, style=style)),
            HostFile(path=conf, text=f"source={layout.port}\nlog={done}\nread_after_s=0\n"),
            HostFile(path=done, text=""),
        ],
        units=[
            service_unit(
                mirror, f"{PYTHON_COMMAND} /opt/{mirror}/main.py {conf}", after=layout.unit
            )
        ],
        unit_lines="MemoryMax=80M\nStartLimitIntervalSec=0",
        symptoms=[
            UnitRunningCheck(name="it lives for long", unit=layout.unit, seconds=5.0),
            ScriptCheck(name="the mirror gets whole bundles", script=whole),
        ],
        inject=[
            f"echo \"$(date '+%F %T') {service}: cache limited by size\" >> /var/log/changes.log; "
            f"{reconfigure.format(20)}"
        ],
        fix=[f"{reconfigure.format(0)}; sleep 6"],
        same=[layout.conf, f"{layout.conf}.sample", layout.program, f"/opt/{mirror}"],
        collateral=[
            UnitRunningCheck(name="the mirror runs", unit=f"{mirror}.service"),
            UnchangedCheck(name="the memory limit", path=f"/etc/systemd/system/{layout.unit}"),
        ],
        settle=4.0,
        rhythm_s=4.0,
    )
