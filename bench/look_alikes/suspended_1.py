"""A backup suspended the service while it copies its files, and hangs at its target; a service that
goes on writes to what is being copied."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import FaultTrigger, HostFile, HttpCheck, ScriptCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])

def book():
    number = 0
    while True:
        number += 1
        with open(conf["ledger"], "a") as file:
            file.write(f"entry {number}\\n")
        time.sleep(0.1)

_thread.start_new_thread(book, ())

def answer(path):
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""
BACKUP = """\
#!/bin/bash
# The service rests while its ledger is copied, so that the copy is consistent.
pid=$(systemctl show -p MainPID --value {service})
trap 'kill -CONT "$pid"; exit 1' TERM
kill -STOP "$pid"
cp {ledger} {copy}
cat {ledger} > {target} &
wait $!
kill -CONT "$pid"
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    ledger, script = f"{layout.data}/ledger.txt", f"/opt/backup-{service}.sh"
    copy, target = f"/srv/backup/{service}.txt", f"/run/{service}-backup.pipe"
    backup = BACKUP.format(service=service, ledger=ledger, copy=copy, target=target)
    end = f"pkill -f -- '[/]opt/backup-{service}.sh'; sleep 0.3"
    at_rest = f"! pgrep -f -- '[/]opt/backup-{service}.sh' >/dev/null || cmp -s {ledger} {copy}"
    return site.look_alike(
        alert="{service} on {host} is not responding: connections are accepted and not answered",
        body=BODY,
        settings={"ledger": ledger},
        files=[
            HostFile(path=ledger, text="entry 0\n"),
            HostFile(path=script, text=backup, mode=0o755),
        ],
        folders=["/srv/backup"],
        symptoms=[HttpCheck(name="it answers", port=layout.port)],
        inject=[f"mkfifo {target}; (setsid {script} </dev/null >/dev/null 2>&1 &); sleep 0.7"],
        fix=[end],
        cure=[FaultTrigger(script="true")],
        same=[layout.program, script],
        collateral=[ScriptCheck(name="the service rests during the copy", script=at_rest)],
        traffic=[TrafficSpec(port=layout.port)],
        moving=[ledger],
    )
