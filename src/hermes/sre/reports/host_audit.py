"""The audit of a host: what it consists of now, how it grows, and what will need attention when."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean

from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration, format_size

MIN_SAMPLES, MIN_SPAN = 6, timedelta(hours=12)
"""Fewer values, or over a shorter time, are no trend."""
MAX_FORECAST_DAYS, SOON_DAYS = 60.0, 30.0
AUDIT_OLD = timedelta(days=1)
CERTIFICATE_SOON, BACKUP_OLD = timedelta(days=21), timedelta(hours=48)
FULL_SHARE = 0.9
MAX_DRIFT_SHOWN = 3


class DiskUse(Value, kw_only=True, frozen=True):
    mount: str
    size_kib: int
    used_kib: int
    inode_share: float = 0.0


class CertificateExpiry(Value, frozen=True):
    path: str
    expires: datetime


class BackupFile(Value, frozen=True):
    """The newest file of a folder of backups."""

    path: str
    at: datetime
    size: int


class DriftItem(Value, frozen=True):
    """A difference from the known good state."""

    item: str
    verb: str
    author: str = ""


class HostAudit(Value, kw_only=True, frozen=True):
    at: datetime
    host: str = ""
    uptime_s: float = 0.0
    processors: int = 1
    load: float = 0.0
    memory_kib: int = 0
    available_kib: int = 0
    disks: tuple[DiskUse, ...] = ()
    certificates: tuple[CertificateExpiry, ...] = ()
    backups: tuple[BackupFile, ...] = ()
    checks: int = 0
    failing: tuple[str, ...] = ()
    known_good_at: datetime | None = None
    drift: tuple[DriftItem, ...] = ()
    problem: str = ""
    """Why the host could not be read."""


class DiskFullForecast(Value, kw_only=True, frozen=True):
    """When a disk is full if it goes on as before."""

    mount: str
    days: float
    plus_minus: float
    kib_a_day: float
    samples: int
    span_days: float

    def __str__(self) -> str:
        grows = format_size(self.kib_a_day * 1024)
        return (
            f"{self.mount} full in {self.days:.0f} days ± {max(1, round(self.plus_minus))} (grows "
            f"{grows} a day; a line through {self.samples} values of {self.span_days:.1f} days)"
        )


def parse_audit(text: str, at: datetime) -> HostAudit:
    """Parts that the host does not have are empty."""
    parts = {
        name: body.strip().splitlines()
        for name, body in re.findall(r"(?ms)^@(\w+)\n(.*?)(?=^@)", text)
    }
    host = [*parts.get("host", []), "", "0", "1", "0"]
    memory = {line.split(":")[0]: int(line.split()[1]) for line in parts.get("memory", [])}
    return HostAudit(
        at=at,
        host=host[0],
        uptime_s=_number(host[1]),
        processors=int(_number(host[2])) or 1,
        load=_number(host[3].split()[0] if host[3].split() else "0"),
        memory_kib=memory.get("MemTotal", 0),
        available_kib=memory.get("MemAvailable", 0),
        disks=_disks(parts.get("disks", []), parts.get("inodes", [])),
        certificates=tuple(_certificates(parts.get("certificates", []))),
        backups=tuple(_backups(parts.get("backups", []))),
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _disks(lines: Sequence[str], inode_lines: Sequence[str]) -> tuple[DiskUse, ...]:
    shares = {}
    for line in inode_lines:
        fields = line.split(None, 5)
        if len(fields) == 6:
            shares[fields[5]] = _number(fields[4].rstrip("%")) / 100
    found: dict[tuple[str, str], DiskUse] = {}
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[1].isdigit() and int(fields[1]) > 0:
            disk = DiskUse(
                mount=fields[5],
                size_kib=int(fields[1]),
                used_kib=int(fields[2]),
                inode_share=shares.get(fields[5], 0.0),
            )
            found.setdefault((fields[0], fields[1]), disk)  # mounted twice: one disk
    return tuple(found.values())


def _certificates(lines: Sequence[str]) -> Iterator[CertificateExpiry]:
    for line in lines:
        when, _, path = line.partition("|")
        try:
            at = datetime.strptime(f"{when.removesuffix('GMT')}+0000", "%b %d %H:%M:%S %Y %z")
        except ValueError:
            continue
        yield CertificateExpiry(path, at)


def _backups(lines: Sequence[str]) -> Iterator[BackupFile]:
    for line in lines:
        at, _, rest = line.partition("|")
        size, _, path = rest.partition("|")
        yield BackupFile(path, datetime.fromtimestamp(_number(at), UTC), int(_number(size)))


def forecast_disks(audits: Sequence[HostAudit]) -> list[DiskFullForecast]:
    """For each disk of the last audit that grows steadily, when it is full; the first one first."""
    if not audits:
        return []
    found = []
    for disk in audits[-1].disks:
        points = [
            (audit.at, each.used_kib)
            for audit in audits
            for each in audit.disks
            if each.mount == disk.mount and each.size_kib == disk.size_kib
        ]
        forecast = _forecast(disk, points)
        if forecast is not None and forecast.days <= MAX_FORECAST_DAYS:
            found.append(forecast)
    return sorted(found, key=lambda each: each.days)


def _forecast(disk: DiskUse, points: Sequence[tuple[datetime, int]]) -> DiskFullForecast | None:
    """A line by least squares; none when the growth is not larger than twice its error."""
    if len(points) < MIN_SAMPLES or points[-1][0] - points[0][0] < MIN_SPAN:
        return None
    days = [(at - points[0][0]).total_seconds() / 86_400 for at, _ in points]
    used = [float(each) for _, each in points]
    mean_day, mean_used = fmean(days), fmean(used)
    spread = sum((day - mean_day) ** 2 for day in days)
    pairs = list(zip(days, used, strict=True))
    slope = sum((day - mean_day) * (each - mean_used) for day, each in pairs) / spread
    left = sum((each - mean_used - slope * (day - mean_day)) ** 2 for day, each in pairs)
    error = (left / (len(points) - 2) / spread) ** 0.5
    if slope <= 0 or slope <= 2 * error:
        return None
    until_full = (disk.size_kib - disk.used_kib) / slope
    return DiskFullForecast(
        mount=disk.mount,
        days=until_full,
        plus_minus=until_full * 2 * error / slope,
        kib_a_day=slope,
        samples=len(points),
        span_days=days[-1],
    )


def find_risks(audits: Sequence[HostAudit], now: datetime) -> list[tuple[str, str]]:
    """Return what needs attention soon, as pairs of subject and words; empty when nothing does."""
    if not audits:
        return []
    last = audits[-1]
    found = []
    if now - last.at > AUDIT_OLD:
        age = format_duration((now - last.at).total_seconds())
        found.append(("audit", f"the newest one is {age} old; what follows is from then"))
    found += _disk_risks(audits)
    for each in sorted(last.certificates, key=lambda one: one.expires):
        if each.expires - now <= CERTIFICATE_SOON:
            found.append(("certificate", f"{each.path} {_expiry_text(each.expires, now)}"))
    for backup in last.backups:
        if now - backup.at > BACKUP_OLD:
            age = format_duration((now - backup.at).total_seconds())
            found.append(("backup", f"the newest file is {age} old: {backup.path}"))
    if last.failing:
        found.append(("failing checks", ", ".join(last.failing[:5])))
    if last.drift:
        found.append(("drift", drift_text(last)))
    return found


def _disk_risks(audits: Sequence[HostAudit]) -> Iterator[tuple[str, str]]:
    forecasts = [each for each in forecast_disks(audits) if each.days <= SOON_DAYS]
    named = {each.mount for each in forecasts}
    for forecast in forecasts:
        yield "runs full", str(forecast)
    for disk in audits[-1].disks:
        share = disk.used_kib / disk.size_kib
        if share >= FULL_SHARE and disk.mount not in named:
            yield "nearly full", f"{disk.mount}: {share:.0%} used, not growing steadily"
        if disk.inode_share >= FULL_SHARE:
            yield "inodes", f"{disk.mount}: {disk.inode_share:.0%} used"


def _expiry_text(expires: datetime, now: datetime) -> str:
    days = (expires - now).total_seconds() / 86_400
    return f"expires in {days:.0f} days" if days >= 0 else f"expired {-days:.0f} days ago"


def drift_text(audit: HostAudit) -> str:
    shown = "; ".join(
        f"{each.item} {each.verb}" + (f" by {each.author}" if each.author else "")
        for each in audit.drift[:MAX_DRIFT_SHOWN]
    )
    more = len(audit.drift) - MAX_DRIFT_SHOWN
    since = f"{audit.known_good_at:%Y-%m-%d %H:%M} UTC" if audit.known_good_at else "the first look"
    return f"{len(audit.drift)} changes since {since}: {shown}" + (
        f" and {more} more" if more > 0 else ""
    )


def render_audit(audits: Sequence[HostAudit], now: datetime) -> list[tuple[str, str]]:
    """The last audit for people, with how fast the disks grow."""
    last = audits[-1]
    memory = 1 - last.available_kib / last.memory_kib if last.memory_kib else 0.0
    lines = [
        ("audited", f"{last.at:%Y-%m-%d %H:%M:%S} UTC"),
        ("host", f"{last.host}, up {format_duration(last.uptime_s)}"),
        ("load", f"{last.load:g} of {last.processors} processors"),
        ("memory", f"{memory:.0%} of {format_size(last.memory_kib * 1024)} used"),
    ]
    growth = {each.mount: each for each in forecast_disks(audits)}
    for disk in last.disks:
        text = f"{disk.mount}: {disk.used_kib / disk.size_kib:.0%} of "
        text += format_size(disk.size_kib * 1024)
        if disk.mount in growth:
            text += f", {growth[disk.mount]}"
        lines.append(("disk", text))
    lines.append(("services", _checks_text(last)))
    for each in last.certificates:
        lines.append(("certificate", f"{each.path} {_expiry_text(each.expires, now)}"))
    for backup in last.backups:
        age = format_duration((now - backup.at).total_seconds())
        lines.append(("backup", f"{backup.path}, {age} old, {format_size(backup.size)}"))
    lines.append(("drift", drift_text(last) if last.drift else "none from the known good state"))
    lines += [("problem", last.problem)] if last.problem else []
    return [(name, visible_line(text, 300)) for name, text in lines]


def _checks_text(audit: HostAudit) -> str:
    if not audit.checks:
        return "no round of checks yet"
    bad = f"failing: {', '.join(audit.failing)}" if audit.failing else "all fine"
    return f"{audit.checks} checks, {bad}"
