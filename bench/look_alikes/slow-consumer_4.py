"""The producer looks for receipts in the wrong folder and sends every job again and again; the
consumer keeps up with real jobs. Without its pause the queue is short and each mail goes out
many times."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
queue, pause = conf["queue"], float(conf["pause_ms"]) / 1000

def work():
    while True:
        names = sorted(name for name in os.listdir(queue) if name.endswith(".job"))
        for name in names:
            order = name.partition(".")[0]
            try:
                os.unlink(f"{queue}/{name}")
            except OSError:
                continue
            with open(conf["sent"], "a") as file:
                file.write(order + "\\n")
            again = os.path.exists(f"{conf['receipts']}/{order}")
            open(f"{conf['receipts']}/{order}", "w").close()
            log("INFO", f"mail for {order} sent{' again' * again}, {len(names)} were waiting")
            time.sleep(pause)
        time.sleep(0.02)

_thread.start_new_thread(work, ())
serve(int(conf["port"]), lambda path: (200, {"mark": conf["mark"]}))
"""
SOURCE = """\
conf = settings(sys.argv[1])
number, sent, tries = int(time.time() * 10), {}, 0

def put(order, kind):
    path = f"{conf['queue']}/{order}.{kind}"
    open(path + ".part", "w").close()
    os.rename(path + ".part", path + ".job")

while True:
    number += 1
    sent[f"order-{number}"] = time.monotonic()
    put(f"order-{number}", "first")
    for order, when in list(sent.items()):
        if os.path.exists(f"{conf['receipts']}/{order}"):
            del sent[order]
        elif time.monotonic() - when > 2.5:
            tries += 1
            put(order, f"retry{tries}")
            sent[order] = time.monotonic()
            log("WARN", f"no receipt of {order} in {conf['receipts']}, sent again")
    time.sleep(0.4)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    source, queue = f"{service}-orders", f"/var/spool/{service}"
    receipts, sent = f"{layout.data}/receipts", f"{layout.data}/sent.log"
    conf = f"/etc/{source}.conf"
    reconfigure = f"sed -i 's|^receipts=.*|receipts={{}}|' {conf}; systemctl restart {source}"
    once = f"for each in $(tail -n 12 {sent} | sort -u); do "
    once += f"[ $(grep -cx $each {sent}) -eq 1 ] || exit 1; done"
    return site.look_alike(
        alert="queue of {service} on {host} grows, consumers do not keep up",
        body=BODY,
        settings={
            "queue": queue,
            "receipts": receipts,
            "sent": sent,
            "mark": site.token,
            "pause_ms": 60,
        },
        files=[
            HostFile(
                path=f"/opt/{source}/main.py",
                text=fill_program(SOURCE, style="{time} {level} {text}"),
            ),
            HostFile(path=conf, text=f"queue={queue}\nreceipts={receipts}\n"),
            HostFile(path=sent, text=""),
        ],
        folders=[queue, receipts, f"{receipts}-old"],
        units=[service_unit(source, f"{PYTHON_COMMAND} /opt/{source}/main.py {conf}")],
        healthy=[HttpCheck(name="it answers", port=layout.port, contains=site.token)],
        symptoms=[
            ScriptCheck(name="the queue is short", script=f"test $(ls {queue} | wc -l) -lt 8"),
            ScriptCheck(name="nothing is sent again", script=once),
        ],
        inject=[
            f"{layout.put('pause_ms', 180)}; systemctl restart {service}; "
            f"echo \"$(date '+%F %T') {service}: pause_ms 60 -> 180, the relay asked for it\" "
            ">> /var/log/changes.log",
            reconfigure.format(f"{receipts}-old"),
        ],
        fix=[f"{reconfigure.format(receipts)}; rm -f {queue}/*.retry*.job", "sleep 9"],
        same=[layout.program, f"/opt/{source}", f"{receipts}-old"],
        collateral=[
            UnitRunningCheck(name="orders still come", unit=f"{source}.service"),
            ScriptCheck(
                name="no receipt was removed",
                script=f"for each in $(tail -n 20 {sent} | head -n 15); do "
                f"[ -e {receipts}/$each ] || exit 1; done",
            ),
        ],
        keep=[("the settings", f"cat {layout.conf}")],
        moving=[queue, receipts],
        settle=10.0,
    )
