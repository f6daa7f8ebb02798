"""A file in the inbox cannot be moved because its name is taken by a folder in the target, and is
tried again at once; a pause of 0 means that the service waits for a wake-up, and is intended."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck

BODY = """\
conf = settings(sys.argv[1])
inbox, done, pause = conf["inbox"], conf["done"], float(conf["poll_interval_s"])
wake = threading.Event()

def look():
    for name in sorted(os.listdir(inbox)):
        try:
            os.replace(f"{inbox}/{name}", f"{done}/{name}")
        except OSError as error:
            failed[name] = error.strerror
            if len(failed) == 1 and time.monotonic() - said[0] > 1:
                said[0] = time.monotonic()
                log("WARN", f"{name} stays in {inbox}, trying again: {error.strerror}")
            wake.set()

def poll():
    log("INFO", f"watching {inbox}, poll_interval_s {pause} (0: on wake-up only)")
    while True:
        look()
        wake.wait(pause or None)
        wake.clear()

def answer(path):
    wake.set()
    return 200, {"mark": conf["mark"]}

failed, said = {}, [-9.0]
_thread.start_new_thread(poll, ())
serve(int(conf["port"]), answer)
"""
IDLES = """\
pid=$(systemctl show -p MainPID --value {service})
ran() {{ cat /proc/$pid/task/*/schedstat | {{ all=0; while read -r on wait _; do
  all=$((all + on + wait)); done; echo $all; }}; }}
before=$(ran); sleep 0.5; after=$(ran)
echo $(((after - before) / 1000000)) ms of 500; test $((after - before)) -lt 200000000
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    inbox, done = f"{layout.data}/inbox", f"{layout.data}/done"
    idles = IDLES.format(service=service)
    return site.look_alike(
        alert="HighCPU: {service} on {host} uses a whole core for 12 minutes",
        body=BODY,
        settings={"poll_interval_s": 0, "inbox": inbox, "done": done, "mark": site.token},
        files=[
            HostFile(path=f"{layout.conf}.sample", text="poll_interval_s=0.1\n"),
            HostFile(path=f"{done}/order-1", text="an order\n"),
        ],
        folders=[inbox],
        healthy=[HttpCheck(name="it answers", port=layout.port, contains=site.token)],
        symptoms=[ScriptCheck(name="it does not burn a core", script=idles)],
        inject=[
            f"mkdir {done}/order-7; echo kept > {done}/order-7/part; "
            f"echo 'order 7' > {inbox}/order-7; systemctl restart {service}"
        ],
        fix=[f"mv {done}/order-7 {done}/order-7.parts; systemctl restart {service}"],
        same=[layout.conf, f"{layout.conf}.sample", layout.program, f"{done}/order-1"],
        keep=[("order 7", f"cat {inbox}/order-7 {done}/order-7/part 2>/dev/null")],
    )
