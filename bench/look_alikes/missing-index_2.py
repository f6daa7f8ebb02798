"""All indexes are there; the role of the service is configured not to use any. The index that the
log of the schema calls dropped was another one, which was not needed."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS

NEEDS = POSTGRES_NEEDS
SCANS = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("missing-index", site.rng)
    service = spec.alert.labels["service"]
    tool = next(file for file in spec.hosts[0].files if "DROP INDEX" in file.text)
    psql = re.search(r"ask\(\) \{ (.*) \"\$1\"", tool.text)
    log = re.search(r">> (/\S+)$", tool.text, re.M)
    declared = re.search(r"in line with (/\S+):", tool.text)
    table = re.search(r"indrelid = '(\w+)'", tool.text)
    assert psql and log and declared and table
    spec = replace(
        spec,
        inject=(
            f"echo \"$(date '+%F %T') dropped {table[1]}_created_ix\" >> {log[1]}",
            "; ".join(f'{psql[1]} "ALTER ROLE {service} SET {key} = off"' for key in SCANS),
        ),
        reference=tuple(f'{psql[1]} "ALTER ROLE {service} RESET {key}"' for key in SCANS),
        cure=(FaultTrigger(restart=(f"{service}.service",)),),
        collateral=(
            *spec.collateral,
            UnchangedCheck(name="the declared indexes", path=declared[1]),
        ),
    )
    indexes = f'{psql[1]} "SELECT indexdef FROM pg_indexes ORDER BY 1"'
    return LookAlike(spec, keep=(("indexes", indexes),))
