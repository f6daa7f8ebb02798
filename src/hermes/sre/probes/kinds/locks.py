"""Probes for sessions of a database that wait for a lock for a while."""

import re
from collections.abc import Iterator
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.host_scan import HostScan
from hermes.sre.probes.probe import Probe

MIN_FAILURES = 4
"""Runs in a row that must see waiting sessions: short waits are usual."""

_POSTGRES = r"""
# PostgreSQL shows in the title of a session that it waits for a lock: no login is needed.
waiting() {
  grep -alE '^postgres: .* waiting' /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3 | sort
}
# Clients time out and ask again: there is not a waiting session at every moment.
for turn in 1 2 3; do found=$(waiting); [ -z "$found" ] || break; sleep 0.5; done
for turn in 1 2 3; do
  [ -n "$found" ] || { echo "no session waits for a lock for long"; exit 0; }
  sleep 0.4; found=$(comm -12 <(printf '%s\n' "$found") <(waiting))
done
[ -n "$found" ] || { echo "no session waits for a lock for long"; exit 0; }
title() { tr '\0' ' ' < /proc/"$1"/cmdline 2>/dev/null | cut -c 1-100 | sed 's/ *$//'; }
idle=$(grep -alE '^postgres: .* idle in transaction' /proc/[0-9]*/cmdline 2>/dev/null |
  cut -d / -f 3 | head -n 3)
set -- $found
echo "sessions of PostgreSQL that wait for a lock: $#; $(title "$1") (pid $1)"
for p in $idle; do echo "idle in a transaction: $(title "$p") (pid $p)"; done
exit 1
"""
_MYSQL = r"""
n=$(timeout 4 mariadb -S "$s" -u root --connect-timeout=3 -Nse "
  select count(*), max(p.time) from information_schema.processlist p
  left join information_schema.innodb_trx t on t.trx_mysql_thread_id = p.id
  where p.time >= 1 and (p.state like 'Waiting for%lock%' or t.trx_state = 'LOCK WAIT')" 2>&1) || {
  echo "$s cannot be asked: $n"; exit 3; }
set -- $n
[ "$1" -gt 0 ] || { echo "no session waits for a lock for long"; exit 0; }
echo "sessions of MariaDB that wait for a lock: $1; the longest for $2 s"
exit 1
"""
MYSQL_PREFIX = "mysql:"


def locks_command(probe: Probe, before: str | None) -> str:
    """`what`: `postgres`, for all sessions of this host, or `mysql:` and the path of a socket."""
    if probe.what == "postgres":
        return _POSTGRES
    socket = probe.what.removeprefix(MYSQL_PREFIX)
    if socket == probe.what or not re.fullmatch(r"/[\w./-]+", socket):
        raise SettingsError(f"{probe.name}: write postgres, or mysql: and the path of its socket")
    return f"s={quote(socket)}{_MYSQL}"


def lock_probes(scan: HostScan) -> Iterator[Probe]:
    """A lock that is held for long stops users while the server answers all other probes."""
    for server in scan.listeners:
        socket = scan.mysql_sockets.get(server.port)
        if server.program == "postgres" or socket:
            yield Probe(
                name=f"locks-mysql-{server.port}" if socket else "locks-postgres",
                kind="locks",
                what=f"{MYSQL_PREFIX}{socket}" if socket else "postgres",
                service=server.service,
                fails=MIN_FAILURES,
            )
