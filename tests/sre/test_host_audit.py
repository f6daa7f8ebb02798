"""The audit of a host: real output is read, trends are told with how they were made."""

import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from hermes.sre.probes.host_facts import HOST_FACTS_SCRIPT
from hermes.sre.reports.host_audit import (
    BackupFile,
    CertificateExpiry,
    DiskUse,
    DriftItem,
    HostAudit,
    find_risks,
    forecast_disks,
    parse_audit,
    render_audit,
)

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
GIB = 2**20


def audits(
    used: list[float], hours: float = 1, size: float = 100, mount: str = "/"
) -> list[HostAudit]:
    """One each hour, with so many GiB used."""
    return [
        HostAudit(
            at=NOW - timedelta(hours=hours * (len(used) - 1 - at)),
            host="web-1",
            memory_kib=4 * GIB,
            available_kib=2 * GIB,
            disks=(DiskUse(mount=mount, size_kib=int(size * GIB), used_kib=int(each * GIB)),),
        )
        for at, each in enumerate(used)
    ]


def test_a_disk_that_grows_steadily_is_full_in_so_many_days() -> None:
    noise = [0.2, -0.1, 0.15, -0.2, 0.05, -0.1]
    used = [64 + hour * 4 / 24 + noise[hour % 6] for hour in range(72)]
    (found,) = forecast_disks(audits(used))
    assert found.days == pytest.approx((100 - used[-1]) / 4, rel=0.1)
    assert found.plus_minus < 1.5
    assert str(found) == (
        "/ full in 6 days ± 1 (grows 4.0 GiB a day; a line through 72 values of 3.0 days)"
    )


@pytest.mark.parametrize(
    "used",
    [
        [64.0] * 72,
        [90 - hour / 24 for hour in range(72)],
        [64 + (hour * 37 % 11) for hour in range(72)],
        [64.0, 70.0, 75.0],
        [64 + hour / 2400 for hour in range(72)],
    ],
    ids=["flat", "shrinking", "noise", "too few", "in years"],
)
def test_no_trend_is_no_forecast(used: list[float]) -> None:
    assert forecast_disks(audits(used)) == []


def test_a_disk_that_was_made_larger_begins_a_new_trend() -> None:
    before, after = audits([90 + h / 12 for h in range(48)]), audits([20.0] * 3, size=500)
    assert forecast_disks([*before, *after]) == []


def test_nothing_to_say_is_nothing() -> None:
    assert find_risks(audits([50.0] * 48), NOW) == []
    assert find_risks([], NOW) == []


def test_what_expires_ages_drifts_and_fails_is_named() -> None:
    last = HostAudit(
        at=NOW,
        certificates=(
            CertificateExpiry("/etc/a.pem", NOW + timedelta(days=9)),
            CertificateExpiry("/etc/b.pem", NOW + timedelta(days=90)),
        ),
        backups=(BackupFile("/backup/db.gz", NOW - timedelta(days=3), 10),),
        failing=("http-shop",),
        drift=(DriftItem("file /etc/nginx/nginx.conf", "changed", "alice"),),
        disks=(DiskUse(mount="/srv", size_kib=100, used_kib=95, inode_share=0.97),),
    )
    found = dict(find_risks([last], NOW))
    assert found["certificate"] == "/etc/a.pem expires in 9 days"
    assert "3 d 0 h" in found["backup"]
    assert found["failing checks"] == "http-shop"
    assert "nginx.conf changed by alice" in found["drift"]
    assert found["inodes"] == "/srv: 97% used"
    assert found["nearly full"].startswith("/srv: 95%")


@pytest.mark.command
def test_the_script_reads_this_host() -> None:
    done = subprocess.run(
        ["sh", "-c", HOST_FACTS_SCRIPT], capture_output=True, text=True, check=True
    )
    made = parse_audit(done.stdout, NOW)
    assert made.host
    assert made.uptime_s > 0
    assert made.memory_kib > made.available_kib > 0
    assert made.disks
    assert dict(render_audit([made], NOW))["host"].startswith(made.host)


def test_certificates_and_backups_are_parsed() -> None:
    text = (
        "@host\nh\n1.5\n2\n0.5 0 0\n@certificates\nMar  9 12:00:00 2027 GMT|/etc/a b.pem\n"
        "nonsense|/x\n@backups\n1763380000.25|123|/backup/x|y.gz\n@end\n"
    )
    made = parse_audit(text, NOW)
    assert made.certificates == (
        CertificateExpiry("/etc/a b.pem", datetime(2027, 3, 9, 12, tzinfo=UTC)),
    )
    assert (made.backups[0].path, made.backups[0].size) == ("/backup/x|y.gz", 123)
    assert (made.processors, made.load) == (2, 0.5)


def test_garbage_is_an_empty_audit() -> None:
    assert parse_audit("", NOW).disks == ()
    assert parse_audit("@disks\nx y z\n@end", NOW).disks == ()
