"""A third job that came with a new query locks the rows the other way round; the two services
name the same order in two spellings, one of which was changed lately."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import HostFile, UnchangedCheck, UnitRunningCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS
from hermes.gym.services.python_service import service_unit

NEEDS = POSTGRES_NEEDS
TOTALS = """\
#!/bin/bash
# Keeps the totals of the accounts in step.
export PGOPTIONS='-c deadlock_timeout=1s'
while sleep 0.05; do
  {psql} -f /opt/{name}/totals.sql > /dev/null || echo "totals failed, trying again"
done
"""
QUERY = """\
-- release {release}
BEGIN;
SELECT 1 FROM accounts WHERE id = {first} FOR UPDATE;
SELECT pg_sleep(0.05);
SELECT 1 FROM accounts WHERE id = {last} FOR UPDATE;
COMMIT;
"""
SPELLINGS = {"asc": "ascending", "ascending": "asc", "desc": "descending", "descending": "desc"}


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-deadlock", site.rng)
    host = spec.hosts[0]
    program = next(file for file in host.files if "pair = sorted((" in file.text)
    numbers = re.search(r"pair = sorted\(\((\d+), (\d+)\), reverse=conf\['(\w+)'\]", program.text)
    assert numbers
    key = rf"^({numbers[3]}\W+)(\w+)$"
    own, jobs = (file for file in host.files if re.search(key, file.text, re.M))
    line = re.search(key, jobs.text, re.M)
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    job = next(each.path for each in host.units if f" {jobs.path}" in each.text)
    assert line and found
    first, last = sorted((int(numbers[1]), int(numbers[2])), reverse=line[2].startswith("desc"))
    name = f"{spec.alert.labels['service']}-totals"
    right = QUERY.format(release=11, first=first, last=last)
    wrong = QUERY.format(release=12, first=last, last=first)
    files = (
        HostFile(
            path=f"/opt/{name}/run.sh", text=TOTALS.format(psql=found[1], name=name), mode=0o755
        ),
        HostFile(path=f"/opt/{name}/totals.sql", text=right),
        HostFile(path=f"/opt/{name}/releases/11.sql", text=right),
        HostFile(path=f"/opt/{name}/releases/12.sql", text=wrong),
    )
    totals = service_unit(name, f"/bin/bash /opt/{name}/run.sh", after="postgresql.service")
    spelling = SPELLINGS[line[2]]
    install = f"cp /opt/{name}/releases/{{}}.sql /opt/{name}/totals.sql"
    spec = replace(
        spec,
        hosts=(replace(host, files=(*host.files, *files), units=(*host.units, totals)),),
        inject=(
            f"sed -i 's/^{line[1]}.*/{line[1]}{spelling}/' {jobs.path}; systemctl restart {job}; "
            f"echo \"$(date '+%F %T') {job}: sort set to {spelling}\" >> /var/log/changes.log",
            install.format(12),
        ),
        reference=(install.format(11), "sleep 1"),
        collateral=(
            *spec.collateral,
            UnchangedCheck(name="the settings of the service", path=own.path),
            UnchangedCheck(name="the releases", path=f"/opt/{name}/releases"),
            UnitRunningCheck(name="the totals are kept", unit=f"{name}.service"),
        ),
        settle=1.0,
    )
    return LookAlike(
        spec,
        keep=(
            ("rows", f"{found[1]} -c 'SELECT count(*) FROM accounts'"),
            ("the order", f"cat {jobs.path}"),
        ),
        rhythm_s=4.0,
    )
