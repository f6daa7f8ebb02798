"""Nearly all slots of the database were reserved for superusers by a setting of the server; the
pool that was raised lately is small, and a smaller one leaves the reader without a slot too."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck, UnitRunningCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS
from hermes.gym.services.shell_scripts import checked_requests_script

NEEDS = POSTGRES_NEEDS
KEY = r"^((?:pool_max|db_sessions|max_pool|connections_max)\W+)(\d+)$"


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-connections-exhausted", site.rng)
    files = spec.hosts[0].files
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    pool = next(file for file in files if re.search(KEY, file.text, re.M))
    line = re.search(KEY, pool.text, re.M)
    owner, port = (re.search(rf"^{key}\W+(\w+)$", pool.text, re.M) for key in ("db_user", "port"))
    server = next(file for file in files if file.path.endswith("/postgresql.conf"))
    slots = re.search(r"^max_connections = (\d+)$", server.text, re.M)
    assert found and line and owner and port and slots
    psql, service, raised = found[1], owner[1], int(line[2]) + 1
    reserve = f"{psql} -c 'ALTER SYSTEM SET superuser_reserved_connections = {int(slots[1]) - 1}'"
    flood = f"sleep 1; {checked_requests_script(int(port[1]), '/items', 12)}"
    again = "systemctl restart postgresql; sleep 2"
    spec = replace(
        spec,
        symptoms=spec.symptoms[:1],
        inject=(
            f"sed -i 's/^{line[1]}.*/{line[1]}{raised}/' {pool.path}; "
            f"echo \"$(date '+%F %T') {service}: raised the pool, value {raised}\" "
            f">> /var/log/changes.log; systemctl restart {service}",
            f"{reserve}; {again}; {flood}; true",
        ),
        reference=(
            f"{psql} -c 'ALTER SYSTEM RESET superuser_reserved_connections'; {again}",
            flood,
        ),
        cure=(FaultTrigger(restart=(f"{service}.service",)), FaultTrigger(script=flood)),
        collateral=(
            *(
                check
                for check in spec.collateral
                if not (isinstance(check, UnitRunningCheck) and check.unit == "postgresql.service")
            ),
            UnchangedCheck(name="the database settings", path="/etc/postgresql"),
        ),
    )
    return LookAlike(
        spec,
        keep=(
            ("rows", f"{psql} -c 'SELECT * FROM items ORDER BY id'"),
            ("the pool", f"cat {pool.path}"),
        ),
    )
