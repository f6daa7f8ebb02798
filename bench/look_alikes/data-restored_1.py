"""The data is whole; the setting that names its checksum was changed to the one of last year."""

import hashlib

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
import hashlib

conf = settings(sys.argv[1])
*rows, last = open(conf["data"], errors="replace").read().splitlines()
if hashlib.new(conf["checksum"], "\\n".join(rows).encode()).hexdigest() != last:
    fatal(f"{conf['data']} is damaged: checksum mismatch")

def answer(path):
    return 200, {"rows": rows}

serve(int(conf["port"]), answer)
"""


def _stored(rows: list[str], kind: str) -> str:
    body = "\n".join(rows)
    return f"{body}\n{hashlib.new(kind, body.encode()).hexdigest()}\n"


def draw(site: Site) -> LookAlike:
    rows = [f"{site.rng.token()} {site.rng.number(1, 900)}" for _ in range(24)]
    data, copies = f"{site.layout.data}/ledger.rows", f"/var/backups/{site.service}"
    # Copies from the time before the change of checksum are accepted under the wrong setting.
    kept = {"03": (rows[:9], "sha1"), "11": (rows[:15], "sha1"), "19": (rows[:22], "sha256")}
    files = [
        HostFile(path=f"{copies}/ledger-2026-05-{day}.rows", text=_stored(*each))
        for day, each in kept.items()
    ]
    return site.look_alike(
        alert="{service} on {host} is down and does not start again",
        body=BODY,
        settings={"data": data, "checksum": "sha256"},
        files=[HostFile(path=data, text=_stored(rows, "sha256")), *files],
        symptoms=[
            HttpCheck(name="the last row is served", port=site.layout.port, contains=rows[-1])
        ],
        inject=[
            f"{site.layout.put('checksum', 'sha1')}; systemctl restart {site.service} || true",
        ],
        fix=[
            f"{site.layout.put('checksum', 'sha256')}; systemctl reset-failed {site.service}; "
            f"systemctl restart {site.service}",
        ],
        same=[data, copies, site.layout.program],
    )
