"""The second of two workers is down because its key was moved; the pause of the first one is what
a partner demands, who bans a worker that sends faster."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
queue, pause = conf["queue"], float(conf["pause_ms"]) / 1000
if not os.path.exists(conf["key"]):
    fatal(f"no key for the partner: {conf['key']}")

def work():
    while True:
        names = sorted(name for name in os.listdir(queue) if name.endswith(".job"))
        for name in names:
            if pause < 0.1:
                with open(conf["banned"], "a") as file:
                    file.write(f"{sys.argv[1]} sent without the agreed pause\\n")
                fatal("the partner banned this worker: too many requests")
            try:
                os.unlink(f"{queue}/{name}")
            except OSError:
                continue
            log("INFO", f"sent {name}, {len(names)} were waiting")
            time.sleep(pause)
        time.sleep(0.05)

_thread.start_new_thread(work, ())
serve(int(conf["port"]), lambda path: (200, {"mark": conf["mark"]}))
"""
SOURCE = """\
number = 0
while True:
    number += 1
    open(f"{sys.argv[1]}/{number:06d}.job", "w").close()
    time.sleep(0.15)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    queue, banned, second = f"/var/spool/{service}", f"{layout.data}/banned", f"{service}-b"
    key, style = f"/etc/{service}-keys/b.key", "{time} {level:5} {text}"
    common = f"queue={queue}\nbanned={banned}\nmark={site.token}\n# agreed with the partner\n"
    common += f"pause_ms=200\nport={site.rng.port()}\n"
    source = f"/opt/{service}-source/main.py"
    return site.look_alike(
        alert="queue of {service} on {host} grows and grows",
        body=BODY,
        settings={
            "queue": queue,
            "banned": banned,
            "mark": site.token,
            "key": f"/etc/{service}-keys/a.key",
            "pause_ms": 200,
        },
        files=[
            HostFile(path=f"/etc/{second}.conf", text=f"{common}key={key}\n"),
            HostFile(path=key, text="b\n", mode=0o600),
            HostFile(path=f"/etc/{service}-keys/a.key", text="a\n", mode=0o600),
            HostFile(path=source, text=fill_program(SOURCE, style=style)),
        ],
        folders=[queue, layout.data],
        units=[
            service_unit(second, f"{PYTHON_COMMAND} {layout.program} /etc/{second}.conf"),
            service_unit(f"{service}-source", f"{PYTHON_COMMAND} {source} {queue}"),
        ],
        healthy=[HttpCheck(name="it answers", port=layout.port, contains=site.token)],
        symptoms=[
            ScriptCheck(name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 12")
        ],
        inject=[
            f"mv {key} /opt/b.key; systemctl restart {second} || true; touch {queue}/00{{a..t}}.job"
        ],
        fix=[
            f"mv /opt/b.key {key}; systemctl reset-failed {second}; systemctl restart {second}; "
            "sleep 5"
        ],
        same=[layout.conf, f"/etc/{second}.conf", layout.program, f"/etc/{service}-keys/a.key"],
        collateral=[ScriptCheck(name="no worker is banned", script=f"test ! -e {banned}")],
        moving=[queue],
    )
