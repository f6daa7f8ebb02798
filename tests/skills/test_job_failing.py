"""A job that fails unseen is repaired in an incident about it, and in no other."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord
from test_playbooks_under_supervisors import runner_on

from hermes.core.incident import AlertFacts

pytestmark = [pytest.mark.anyio, needs_namespaces, needs_supervisord]
PREPARE = """
mkdir -p /srv/bin /srv/copies
cat > /srv/bin/backup-shop <<'SCRIPT'
#!/bin/sh
# copies the data of shop
date > /srv/copies/shop-$(date +%s%N)
SCRIPT
chmod 644 /srv/bin/backup-shop
mount -t tmpfs tmpfs /etc/cron.d
echo '0 3 * * * root /srv/bin/backup-shop' > /etc/cron.d/backup-shop
"""
PROGRAM = "[program:shop]\ncommand=/bin/sleep 1000\n"


@contextmanager
def host_with_job() -> Iterator[SupervisorHost]:
    with SupervisorHost() as host:
        host.run(PREPARE)
        host.start_supervisord(PROGRAM)
        yield host


def alert(title: str, kind: str) -> AlertFacts:
    labels = {"service": "shop", **({"kind": kind} if kind else {})}
    return AlertFacts(title=title, text="", labels=labels)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("newest backup of shop is 31 hours old", ""),
        ("several checks red on web-1: shop and pricing", ""),
        ("shop: no file in /srv/copies is younger than 26 hours", "command"),
        ("shop: the log of backup-shop reports errors", "log"),
    ],
)
async def test_the_lost_mode_of_a_job_is_put_back_where_the_alert_may_be_about_it(
    title: str, kind: str
) -> None:
    with host_with_job() as host:
        result = await runner_on(host, "job-failing").run(alert(title, kind))
        assert (result.outcome, result.detail) == ("applied", "")
        assert host.run("ls /srv/copies").startswith("shop-")


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("shop: no answer from http://127.0.0.1:8001/: Connection refused", "http"),
        ("shop: 80.0 lines a minute of /var/log/shop/inventory.log report errors", "log"),
        ("shop: nothing answers at 127.0.0.1:5432", "port"),
    ],
)
async def test_an_outage_of_a_service_is_not_explained_by_a_job_named_after_it(
    title: str, kind: str
) -> None:
    with host_with_job() as host:
        found = await runner_on(host, "job-failing").check_signature(alert(title, kind))
        assert found.early_outcome == "declined"
