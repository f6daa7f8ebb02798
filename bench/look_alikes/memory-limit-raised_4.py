"""The header of the table names far too many records, and the service makes room for all of them;
the limit that was lowered lately is ample. With more memory it fills up the customers' table."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
table, header = conf["table"], conf["table"] + ".header"
rows = open(table).read().splitlines()
if sys.argv[2:] == ["--reindex"]:
    with open(header, "w") as file:
        file.write(f"records {len(rows)}\\n")
    sys.exit()
count = int(open(header).read().split()[1])
log("INFO", f"warming up: {header} says {count} records, {table} has {len(rows)} lines")
room = []
while len(room) * 10000 < count:
    room.append(bytearray(b"r" * 1000000))
    if len(room) % 20 == 0:
        log("INFO", f"warming up: {len(room)} MB")
if len(rows) < count:
    log("WARN", f"{table} is filled up with empty records")
    with open(table, "a") as file:
        file.write("\\n" * (count - len(rows)))
serve(int(conf["port"]), lambda path: (200, {"records": count, "first": rows[0]}))
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    table = f"{layout.data}/customers.tbl"
    rows = "".join(f"{n} {site.token if n == 0 else site.rng.word()}\n" for n in range(12))
    extra = f"/etc/systemd/system/{service}.service.d"
    start = f"systemctl reset-failed {service}; systemctl restart {service} || true"
    return site.look_alike(
        alert="{service} on {host} keeps dying shortly after it starts, killed for its memory",
        body=BODY,
        settings={"table": table},
        files=[
            HostFile(path=table, text=rows),
            HostFile(path=f"{table}.header", text="records 12\n"),
        ],
        unit_lines="MemoryMax=160M\nStartLimitIntervalSec=0",
        symptoms=[HttpCheck(name="as many records", port=layout.port, contains='"records": 12,')],
        healthy=[HttpCheck(name="the first record", port=layout.port, contains=site.token)],
        inject=[
            f"mkdir -p {extra}; printf '[Service]\\nMemoryMax=64M\\n' > {extra}/memory.conf; "
            f"echo \"$(date '+%F %T') {service}: memory limit lowered from 160M to 64M, it uses "
            '12M" >> /var/log/changes.log; systemctl daemon-reload; '
            f"echo 'records 1200000' > {table}.header; {start}"
        ],
        fix=[f"{layout.command} --reindex; {start}"],
        same=[table, layout.conf, layout.program, f"/etc/systemd/system/{service}.service"],
        keep=[("the limit", f"cat {extra}/*")],
        settle=2.0,
    )
