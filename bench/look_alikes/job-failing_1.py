"""The folder of the copies is not there because the vault was moved; the job must follow it. A
folder made again at the old place would be a copy that nothing sends off the host."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import FaultTrigger, HostFile, ScriptCheck

JOB = """\
#!/bin/bash
# Copies {data} to the folder that {conf} names.
set -eu
target=$(sed -n 's/^target=//p' {conf})
cp {data} "$target/.part"
mv "$target/.part" "$target/rows-$(date +%s%N).tsv"
"""


def draw(site: Site) -> LookAlike:
    service, rng = site.service, site.rng
    data, name = f"{site.layout.data}/rows.tsv", f"backup-{site.service}"
    job, conf = f"/opt/jobs/{name}", f"/etc/{name}.conf"
    old, new = f"/srv/vault/{service}", f"/srv/vault-b/{service}"
    ship = "/etc/offsite.conf"
    rows = "".join(f"{rng.token()}\t{rng.number(1, 99)}\n" for _ in range(40))
    more = f"printf '{rng.token()}\\t1\\n' >> {data}"
    fresh = ScriptCheck(
        name="what is sent off the host has all rows",
        script=f"from=$(sed -n 's/^from=//p' {ship}); for f in $from/{service}/rows-*; do"
        f' cmp -s "$f" {data} && exit 0; done; exit 1',
    )
    return site.look_alike(
        alert="newest backup of {service} on {host} is 31 hours old",
        files=[
            HostFile(path=data, text=rows),
            HostFile(path=job, text=JOB.format(data=data, conf=conf), mode=0o755),
            HostFile(path=conf, text=f"target={old}\n"),
            HostFile(path=ship, text="# what goes to the second site\nfrom=/srv/vault\n"),
            HostFile(path=f"/etc/cron.d/{name}", text=f"7 3 * * * root {job} >/dev/null 2>&1\n"),
            HostFile(path=f"{old}/rows-1700000000000000001.tsv", text=rows),
        ],
        symptoms=[fresh],
        inject=[
            "mv /srv/vault /srv/vault-b; sed -i 's|^from=.*|from=/srv/vault-b|' "
            f"{ship}; echo 'The vault is here since the disk was changed; /srv/vault is not "
            f"sent anywhere.' > /srv/vault-b/README; {job} || true",
            more,
        ],
        fix=[f"sed -i 's|^target=.*|target={new}|' {conf}; {job}"],
        cure=[FaultTrigger(script=more), FaultTrigger(cron=name, pause=0.3)],
        same=[job, f"/etc/cron.d/{name}"],
        collateral=[ScriptCheck(name="nothing is at the old place", script="test ! -e /srv/vault")],
    )
