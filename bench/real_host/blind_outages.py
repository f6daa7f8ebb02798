"""Ten outages by somebody who has not seen the playbooks, as they are described in a shell file."""

import re
from pathlib import Path

from real_host.faults import Outage, Stage

SOURCE = Path(__file__).with_suffix(".sh")
PART = re.compile(r"^#: (\w+) ([\w-]+)\n((?:(?!#: ).*\n)*)", re.MULTILINE)
# name, kind, services that a notification may name, checks that fail
TABLE = (
    ("redis-frozen", "hung process", ("redis",), ("redis", "cart", "shop-api")),
    ("redis-volume-full", "disk full of a leftover", ("redis",), ("redis", "cart")),
    ("pg-leaked-sessions", "sessions leaked", ("postgres", "shop-api"), ("shop-api", "items")),
    ("nginx-wrong-upstream", "wrong upstream", ("nginx",), ("items", "cart")),
    ("static-permissions", "wrong modes", ("nginx",), ("nginx",)),
    ("pg-stale-pid-file", "stale lock, pid reused", ("postgres",), ("postgres",)),
    ("port-8000-taken", "port taken", ("shop-api",), ("shop-api",)),
    ("redis-made-replica", "wrong role", ("redis", "shop-api"), ("redis", "cart")),
    ("certificate-expired", "expired certificate", ("nginx",), ("tls",)),
    ("items-page-damaged", "data damage", ("postgres", "shop-api"), ("items",)),
)


def read_blind_outages() -> list[Outage]:
    parts = {(part, name): text for part, name, text in PART.findall(SOURCE.read_text())}
    common = parts["preamble", "all"]

    def outage(name: str, kind: str, services: tuple[str, ...], checks: tuple[str, ...]) -> Outage:
        def run(s: Stage, script: str) -> None:
            s.host.run(f"{common}{script}", check=False)

        # The product may have ended it before, so that a part of its end fails.
        end = f"({parts['fix', name]})\n{parts.get(('cleanup', name), '')}"
        return Outage(
            f"blind-{name}",
            kind,
            services,
            checks,
            lambda s: run(s, parts["break", name]),
            lambda s: run(s, end),
            author="blind",
        )

    return [outage(*row) for row in TABLE]
