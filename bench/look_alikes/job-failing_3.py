"""The job ends because its target disk is full; the lock of a dead run is one that it ignores."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import FaultTrigger, HostDisk, HostFile, ScriptCheck

JOB = """\
#!/bin/bash
# copies {data} to {target}; an old lock ({lock}) is taken over
set -eu
echo $$ > {lock}.new
trap 'rm -f {lock}.new' EXIT
cp {data} {target}/.part 2>/dev/null || {{ rm -f {target}/.part; exit 1; }}
mv {target}/.part {target}/copy-$(date +%s%N)
"""


def draw(site: Site) -> LookAlike:
    name, target = f"backup-{site.service}", "/vault"
    data, lock = f"{site.layout.data}/rows.tsv", f"/run/lock/backup-{site.service}.lock"
    job = f"/opt/jobs/{name}"
    text = JOB.format(data=data, target=target, lock=lock)
    fresh = ScriptCheck(
        name="a copy has all rows",
        script=f"for f in {target}/copy-*; do cmp -s $f {data} && exit 0; done; exit 1",
    )
    return site.look_alike(
        alert="backup freshness of {service} on {host} is red since 40 h",
        body="conf = settings(sys.argv[1])\nserve(int(conf['port']), lambda path: (200, {}))\n",
        settings={"data": data},
        disks=[HostDisk(target, 4)],
        files=[
            HostFile(path=data, text="row\n" * 90_000),
            HostFile(path=job, text=text, mode=0o755),
            HostFile(path=lock, text="31999\n"),
            HostFile(path=f"/etc/cron.d/{name}", text=f"7 3 * * * root {job} >/dev/null 2>&1\n"),
            HostFile(path=f"{target}/copy-1", text="row\n" * 90_000),
        ],
        symptoms=[fresh],
        inject=[
            f"echo more >> {data}; head -c 8M /dev/zero > {target}/other.bin || true; {job} || true"
        ],
        fix=[f"rm {target}/other.bin; {job}"],
        cure=[FaultTrigger(cron=name)],
        same=[lock, job, f"/etc/cron.d/{name}", f"{target}/copy-1"],
    )
