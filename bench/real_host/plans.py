"""Which host sees which outages. Committed before anything of the product was tuned to it."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scene:
    """Outages that overlap: each begins `gap_s` after the one before; all end together."""

    outages: tuple[str, ...]
    gap_s: float = 15.0


@dataclass(frozen=True)
class Terms:
    """What the watch has, apart from the host."""

    state: bool = True
    """A known good state, as a watch records after ten healthy minutes."""
    respect_people: bool = False
    """Recent changes of people wait for an approval, which nobody gives here. Else a rule of the
    policy announces their revert."""


@dataclass(frozen=True)
class Plan:
    """One fresh host from its start to its end."""

    name: str
    manager: str
    kills: bool
    scenes: tuple[Scene, ...]
    terms: Terms = Terms()

    def under(self, terms: Terms, *, kills: bool) -> "Plan":
        return replace(self, terms=terms, kills=self.kills and kills)


def one(name: str) -> Scene:
    return Scene((name,))


PLANS = (
    Plan(
        "box-01",
        "supervisord",
        False,
        (
            one("nginx-stopped"),
            one("shop-broken-release"),
            Scene(("redis-stopped", "nginx-hangs")),
        ),
    ),
    Plan(
        "box-02",
        "daemons",
        True,
        (
            one("redis-stopped"),
            one("nginx-upstream-removed"),
            one("postgres-hangs"),
        ),
    ),
    Plan(
        "box-03",
        "supervisord",
        False,
        (
            Scene(("redis-disk-full", "nginx-stopped")),
            one("postgres-connections"),
            one("catalogue-deleted"),
        ),
    ),
    Plan(
        "box-04",
        "daemons",
        True,
        (
            Scene(("home-full", "nginx-stopped"), 12.0),
            one("redis-memory-full"),
            one("shop-api-hangs"),
        ),
    ),
    Plan(
        "box-05",
        "supervisord",
        True,
        (
            one("postgres-stopped"),
            one("nginx-certificate-expired"),
            one("redis-killed-in-a-loop"),
        ),
    ),
    Plan(
        "box-06",
        "daemons",
        False,
        (
            one("reboot-without-redis"),
            one("nginx-bad-config"),
            Scene(("shop-api-stopped", "postgres-disk-full", "redis-hangs"), 18.0),
        ),
    ),
    Plan(
        "box-07",
        "supervisord",
        True,
        (
            one("reboot-without-nginx"),
            one("redis-password-set"),
            one("shop-api-bad-config"),
        ),
    ),
    Plan(
        "box-08",
        "daemons",
        True,
        (
            Scene(("nginx-disk-full", "redis-bad-config")),
            one("shop-password-rotated"),
            one("nginx-pages-unreadable"),
        ),
    ),
    Plan(
        "box-09",
        "supervisord",
        False,
        (
            Scene(("home-read-only", "redis-stopped"), 12.0),
            one("nginx-port-taken"),
            one("shop-api-killed-in-a-loop"),
        ),
    ),
    Plan(
        "box-10",
        "daemons",
        True,
        (
            one("postgres-stale-pid-file"),
            one("redis-became-a-replica"),
            one("shop-api-port-taken"),
        ),
    ),
    Plan(
        "box-11",
        "supervisord",
        True,
        (
            one("redis-firewalled"),
            Scene(("postgres-wrong-owner", "nginx-hangs")),
            one("items-table-locked"),
        ),
    ),
    Plan(
        "box-12",
        "daemons",
        True,
        (
            one("shop-api-descriptor-limit"),
            Scene(("postgres-firewalled", "nginx-stopped", "redis-stopped"), 18.0),
            one("database-name-wrong"),
        ),
    ),
    Plan(
        "box-13",
        "supervisord",
        True,
        (
            one("redis-read-only"),
            one("postgres-bad-config"),
            one("shop-api-memory-limit"),
        ),
    ),
)
BLIND = tuple(
    Plan(name, manager, False, tuple(one(f"blind-{outage}") for outage in outages))
    for name, manager, outages in (
        ("box-14", "supervisord", ("redis-frozen", "pg-leaked-sessions", "static-permissions")),
        ("box-15", "supervisord", ("nginx-wrong-upstream", "pg-stale-pid-file")),
        ("box-16", "supervisord", ("redis-volume-full", "certificate-expired")),
        ("box-17", "supervisord", ("port-8000-taken", "redis-made-replica", "items-page-damaged")),
        ("box-18", "daemons", ("redis-frozen", "pg-leaked-sessions", "static-permissions")),
        ("box-19", "daemons", ("nginx-wrong-upstream", "pg-stale-pid-file")),
        ("box-20", "daemons", ("redis-volume-full", "certificate-expired")),
        ("box-21", "daemons", ("port-8000-taken", "redis-made-replica", "items-page-damaged")),
    )
)
"""Outages by somebody who has not seen the playbooks."""
QUICK = (
    Plan("box-01", "supervisord", False, (Scene(("redis-disk-full", "nginx-stopped")),)),
    Plan("box-02", "daemons", True, (one("redis-stopped"),)),
    Plan("box-03", "supervisord", False, (one("reboot-without-redis"),)),
    Plan("box-04", "daemons", False, (one("nginx-upstream-removed"),)),
)
