"""A copy of the shards was left in the folder of the shards, so that everything is loaded twice;
with more memory the service starts and counts every record twice."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
held, records = [], 0
for folder, _, names in sorted(os.walk(conf["shards"])):
    for name in sorted(names):
        records += len(open(os.path.join(folder, name)).read().split())
        held.append(bytearray(b"x" * (10 << 20)))
        log("INFO", f"shard {os.path.join(folder, name)} loaded, {10 * len(held)} MB in all")

def answer(path):
    return 200, {"records": records, "mark": conf["mark"]}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    shards = f"{layout.data}/shards"
    return site.look_alike(
        alert="{service} on {host} keeps dying while it warms up, killed for its memory",
        body=BODY,
        settings={"shards": shards, "mark": site.token},
        files=[
            HostFile(path=f"{shards}/{name}.shard", text=f"{name}1 {name}2 {name}3\n")
            for name in ("a", "b", "c")
        ],
        unit_lines="MemoryMax=56M\nStartLimitIntervalSec=0",
        symptoms=[
            HttpCheck(name="each record counts once", port=layout.port, contains='"records": 9,')
        ],
        inject=[
            f"cp -r {shards} /tmp/copy && mv /tmp/copy {shards}/before-the-update; "
            f"systemctl restart {service} || true"
        ],
        fix=[
            f"mv {shards}/before-the-update /root/; systemctl reset-failed {service}; "
            f"systemctl restart {service}"
        ],
        same=[
            layout.conf,
            layout.program,
            f"/etc/systemd/system/{service}.service",
            *(f"{shards}/{name}.shard" for name in ("a", "b", "c")),
        ],
        settle=2.0,
    )
