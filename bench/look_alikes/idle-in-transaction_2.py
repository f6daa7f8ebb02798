"""A prepared transaction that its coordinator never finished holds the rows; no session is idle,
and the job commits as it should."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import HostFile, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import POSTGRES_NEEDS

NEEDS = POSTGRES_NEEDS


def _roomy(file: HostFile) -> HostFile:
    if not file.path.endswith("/postgresql.conf"):
        return file
    return replace(file, text=f"{file.text}max_prepared_transactions = 4\n")


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-idle-in-transaction", site.rng)
    host = spec.hosts[0]
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    assert found
    psql = found[1]
    confs = [f.path for f in host.files if re.search(r"^db_password\W", f.text, re.M)]
    spec = replace(
        spec,
        hosts=(replace(host, files=tuple(map(_roomy, host.files))),),
        inject=(
            f"{psql} <<'END'\nBEGIN;\nUPDATE stock SET checked = checked + 1;\n"
            "PREPARE TRANSACTION 'transfer-4711';\nEND",
        ),
        reference=(f"{psql} -c \"COMMIT PREPARED 'transfer-4711'\"",),
        collateral=(
            *spec.collateral,
            *(UnchangedCheck(name=f"{path} is as it was", path=path) for path in confs),
        ),
        settle=1.0,
    )
    return LookAlike(spec, keep=(("rows", f"{psql} -c 'SELECT id, sku FROM stock ORDER BY id'"),))
