"""A guard suspends the service whenever its spool is full: one that goes on loses what it takes.
The spool is full of dumps of another program."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import (
    FaultTrigger,
    HostDisk,
    HostFile,
    HttpCheck,
    ScriptCheck,
    TrafficSpec,
)
from hermes.gym.services.python_service import service_unit

GUARD_INTERVAL_S = 6.0
BODY = """\
conf = settings(sys.argv[1])

def answer(path):
    if path != "/order":
        return 200, {"status": "ok"}
    try:
        with open(conf["spool"] + "/orders", "a") as file:
            file.write("an order\\n" * 500)
    except OSError:
        with open(conf["lost"], "a") as file:
            file.write("an order\\n")
    return 200, {"status": "ok"}

serve(int(conf["port"]), answer)
"""
GUARD = """\
#!/bin/bash
# A service that cannot write to its spool would lose orders: it rests until there is room.
while true; do
  pid=$(systemctl show -p MainPID --value {service})
  used=$(df --output=pcent {spool} | tail -n 1 | tr -dc 0-9)
  if [ "$used" -ge 95 ]; then
    kill -STOP "$pid"
    echo "{spool} is at $used percent, {service} rests"
  else
    kill -CONT "$pid"
  fi
  sleep {interval}
done
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    spool, lost = f"/var/spool/{service}", f"{layout.data}/lost.txt"
    guard = GUARD.format(service=service, spool=spool, interval=GUARD_INTERVAL_S)
    return site.look_alike(
        alert="health check of {service} on {host} times out, it does not answer on port {port}",
        body=BODY,
        settings={"spool": spool, "lost": lost},
        disks=[HostDisk(spool, 8)],
        files=[
            HostFile(path=lost, text=""),
            HostFile(path=f"/opt/{service}-guard/guard.sh", text=guard, mode=0o755),
        ],
        units=[service_unit(f"{service}-guard", f"/bin/bash /opt/{service}-guard/guard.sh")],
        symptoms=[HttpCheck(name="it answers", port=layout.port)],
        inject=[
            f"mkdir {spool}/dumps; head -c 20M /dev/zero > {spool}/dumps/core.4711 2>/dev/null; "
            f"sleep {GUARD_INTERVAL_S + 1}; truncate -s 0 {lost}"
        ],
        fix=[f"rm -r {spool}/dumps; sleep {GUARD_INTERVAL_S + 1}"],
        cure=[FaultTrigger(script="true")],
        same=[layout.program, f"/opt/{service}-guard"],
        collateral=[ScriptCheck(name="no order was lost", script=f"test ! -s {lost}")],
        traffic=[TrafficSpec(port=layout.port, paths=("/order", "/health"))],
        moving=[spool],
        rhythm_s=GUARD_INTERVAL_S + 1,
    )
