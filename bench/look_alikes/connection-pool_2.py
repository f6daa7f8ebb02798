"""The role of the reader may open no more connections by a limit of its own; the pool that was
raised lately stays far below what the database has."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS

NEEDS = POSTGRES_NEEDS


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-connections-exhausted", site.rng)
    reader = spec.alert.labels["service"]
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    key = r"^((?:pool_max|db_sessions|max_pool|connections_max)\W+)(\d+)$"
    pool = next(file for file in spec.hosts[0].files if re.search(key, file.text, re.M))
    line = re.search(key, pool.text, re.M)
    owner = re.search(r"^db_user\W+(\w+)$", pool.text, re.M)
    assert found and line and owner
    psql, service = found[1], owner[1]
    spec = replace(
        spec,
        symptoms=spec.symptoms[:1],
        inject=(
            f"sed -i 's/^{line[1]}.*/{line[1]}{int(line[2]) + 2}/' {pool.path}; "
            f"echo \"$(date '+%F %T') {service}: pool raised to {int(line[2]) + 2}\" "
            f">> /var/log/changes.log; systemctl restart {service}",
            f'{psql} -c "ALTER ROLE {reader} CONNECTION LIMIT 0"',
        ),
        reference=(f'{psql} -c "ALTER ROLE {reader} CONNECTION LIMIT -1"',),
        cure=(FaultTrigger(restart=(f"{reader}.service",)),),
        collateral=(
            *spec.collateral,
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
