"""The announcer is configured with another pipe, and the service spins on the end of a pipe that
has no writer; the interval of 0 means that only announced orders are taken. Polling books
drafts."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck, UnitRunningCheck
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])
pause, inbox, done = float(conf["poll_interval_s"]), conf["inbox"], conf["done"]
said = [0.0]

def take(names):
    for name in names:
        if os.path.exists(f"{inbox}/{name}"):
            os.replace(f"{inbox}/{name}", f"{done}/{name}")

def poll():
    log("INFO", f"taking orders from {inbox}, poll_interval_s {pause}")
    while pause:
        take(sorted(os.listdir(inbox)))
        time.sleep(pause)
    pipe = os.open(conf["pipe"], os.O_RDONLY)
    log("INFO", f"poll_interval_s is 0: only orders announced on {conf['pipe']} are taken")
    while True:
        heard = os.read(pipe, 65536)
        if not heard and time.monotonic() - said[0] > 2:
            said[0] = time.monotonic()
            log("WARN", f"end of file on {conf['pipe']}, reading on")
        take(heard.decode().split())

_thread.start_new_thread(poll, ())
serve(int(conf["port"]), lambda path: (200, {"mark": conf["mark"]}))
"""
ANNOUNCER = """\
conf = settings(sys.argv[1])
log("INFO", f"announcing finished orders of {conf['inbox']} on {conf['pipe']}")
out = open(conf["pipe"], "a", buffering=1)
while True:
    for name in sorted(os.listdir(conf["inbox"])):
        if open(f"{conf['inbox']}/{name}").read().endswith("end\\n"):
            out.write(name + "\\n")
    time.sleep(0.2)
"""
IDLES = """\
pid=$(systemctl show -p MainPID --value {service})
ran() {{ cat /proc/$pid/task/*/schedstat | {{ all=0; while read -r on wait _; do
  all=$((all + on + wait)); done; echo $all; }}; }}
before=$(ran); sleep 0.5; after=$(ran)
echo $(((after - before) / 1000000)) ms of 500; test $((after - before)) -lt 200000000
"""
TAKES = """\
name=check-$RANDOM$RANDOM; printf 'lamp\\nend\\n' > {inbox}/$name
for n in $(seq 30); do [ -e {done}/$name ] && rm {done}/$name && exit 0; sleep 0.1; done
rm -f {inbox}/$name; exit 1
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    inbox, done, pipe = f"{layout.data}/inbox", f"{layout.data}/done", f"/run/{service}.pipe"
    tool = f"{service}-announcer"
    conf, program = f"/etc/{tool}.conf", f"/opt/{tool}/main.py"
    sample = "# 0: only announced orders; other values also take what is not finished\n"
    start = f"/bin/bash -c '[ -p {pipe} ] || mkfifo {pipe}; exec {layout.command}'"
    reconfigure = f"sed -i 's|^pipe=.*|pipe={{}}|' {conf}; systemctl restart {tool}; sleep 0.5; "
    reconfigure += f"systemctl restart {service}"
    taken = TAKES.format(inbox=inbox, done=done)
    return site.look_alike(
        alert="{service} on {host} uses a whole core although it has nothing to do",
        files=[
            HostFile(path=layout.program, text=fill_program(BODY, style="{time} {level:5} {text}")),
            layout.settings(
                port=layout.port,
                poll_interval_s=0,
                inbox=inbox,
                done=done,
                pipe=pipe,
                mark=site.token,
            ),
            HostFile(
                path=f"{layout.conf}.sample", text=f"{sample}poll_interval_s{layout.sign}0.1\n"
            ),
            HostFile(path=program, text=fill_program(ANNOUNCER, style="{time} {level:5} {text}")),
            HostFile(path=conf, text=f"inbox={inbox}\npipe={pipe}\n"),
            HostFile(path=f"{inbox}/draft-1", text="12 chairs, to be decided\n"),
        ],
        folders=[done],
        units=[
            service_unit(service, start),
            service_unit(tool, f"{PYTHON_COMMAND} {program} {conf}"),
        ],
        healthy=[HttpCheck(name="it answers", port=layout.port, contains=site.token)],
        symptoms=[
            ScriptCheck(name="it does not burn a core", script=IDLES.format(service=service)),
            ScriptCheck(name="a finished order is taken", script=taken),
        ],
        inject=[
            # The reader has its pipe open before the announcer leaves it.
            f"sleep 1; sed -i 's|^pipe=.*|pipe={pipe}.new|' {conf}; systemctl restart {tool}"
        ],
        fix=[reconfigure.format(pipe), "sleep 1"],
        same=[layout.conf, f"{layout.conf}.sample", layout.program, program, f"{inbox}/draft-1"],
        collateral=[UnitRunningCheck(name="the announcer runs", unit=f"{tool}.service")],
        moving=[f"{inbox}/check", f"{done}/check", f"{pipe}.new"],
        settle=1.0,
    )
