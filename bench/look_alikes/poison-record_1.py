"""The service logs each order that it takes; it ends because its limit of open files is too low."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
held = []
for name in sorted(os.listdir(conf["queue"])):
    log("INFO", f"taking {name}")
    try:
        held += [open(os.path.join(conf["queue"], name)) for _ in range(8)]
    except OSError as error:
        fatal(f"error while handling {name}: {error.strerror}")
done = len(held)

def answer(path):
    return 200, {"taken": done, "mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    queue, service = f"{site.layout.data}/queue", site.service
    orders = [HostFile(path=f"{queue}/order-{n:03d}.json", text=f'{{"id": {n}}}') for n in range(6)]
    limit = f"/etc/systemd/system/{service}.service"
    return site.look_alike(
        alert="{service} on {host} is in a crash loop, automatic restart does not help",
        body=BODY,
        settings={"queue": queue, "mark": site.token},
        files=orders,
        symptoms=[HttpCheck(name="it serves", port=site.layout.port, contains=site.token)],
        unit_lines="LimitNOFILE=256",
        inject=[
            f"sed -i 's/^LimitNOFILE=.*/LimitNOFILE=32/' {limit}; systemctl daemon-reload; "
            f"systemctl restart {service} || true"
        ],
        fix=[
            f"sed -i 's/^LimitNOFILE=.*/LimitNOFILE=256/' {limit}; systemctl daemon-reload; "
            f"systemctl reset-failed {service}; systemctl restart {service}"
        ],
        same=[queue, site.layout.conf, site.layout.program],
    )
