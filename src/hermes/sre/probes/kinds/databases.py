"""Shell commands that probe databases and caches, and their connections and memory."""

import re
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.probe import Probe

_POSTGRES = r"""
r=$(pg_isready -h "$h" -p "$p" -t 3 2>&1) || { echo "$r"; exit 1; }
echo "$r"
[ -n "$who" ] || exit 0
q="select round(100.0 * count(*) / current_setting('max_connections')::int) from pg_stat_activity"
n=$(PGCONNECT_TIMEOUT=3 psql -XAtqw -h "$h" -p "$p" -U "$who" -d "$db" -c "$q" 2>&1)
case $n in
  *'too many clients'*|*'remaining connection slots'*) echo "no connection is left: $n"; exit 1 ;;
  *[!0-9]*|'') exit 0 ;;
esac
echo "value=$n percent of the connections are taken"
[ "$n" -lt "$limit" ]
"""
_MYSQL = r"""
r=$(mysqladmin ping -h "$h" -P "$p" --connect-timeout=3 2>&1)
case $r in
  *alive*|*'Access denied'*) echo "mysql answers" ;;
  *) printf '%s\n' "$r" | tail -n 1; exit 1 ;;
esac
"""
_REDIS = r"""
r=$(redis-cli $at PING 2>&1)
case $r in
  PONG) ;;
  *NOAUTH*) echo "it answers and asks for a password"; exit 0 ;;
  *) echo "no PONG: $r"; exit 1 ;;
esac
m=$(redis-cli $at INFO replication | tr -d '\r' | grep -x 'master_link_status:down')
[ -z "$m" ] || { echo "it is a replica and its master does not answer"; exit 1; }
redis-cli $at INFO memory | tr -d '\r' | awk -F: -v limit="$limit" '
  $1 == "used_memory" { u = $2 } $1 == "maxmemory" { m = $2 } $1 == "maxmemory_policy" { p = $2 }
  END { if (m + 0 == 0) { print "PONG"; exit 0 }
    printf "value=%d percent of the allowed memory are used (%s)\n", 100 * u / m, p
    exit p == "noeviction" && 100 * u / m >= limit }'
"""
_SQLITE = r"""
[ -r "$f" ] || { echo "$f cannot be read"; exit 3; }
n=$(sqlite3 -readonly "$f" 'select count(*) from sqlite_master' 2>&1) || {
  echo "$f: $n"; exit 1; }
echo "value=$n tables and indexes in $f"
"""


def postgres_command(probe: Probe, before: str | None) -> str:
    """`what`: a port, `host:port` or `folder of its socket:port`. With a label `user` that needs no
    password, the number of connections is checked as well."""
    host, number = server_address(probe, "127.0.0.1", "5432")
    who, db = probe.labels.get("user", ""), probe.labels.get("database", "postgres")
    limit = 95 if probe.limit is None else int(probe.limit)
    head = f"h={quote(host)} p={number} who={quote(who)} db={quote(db)} limit={limit}"
    return f"{head}{_POSTGRES}"


def mysql_command(probe: Probe, before: str | None) -> str:
    host, number = server_address(probe, "127.0.0.1", "3306")
    return f"h={quote(host)} p={number}{_MYSQL}"


def redis_command(probe: Probe, before: str | None) -> str:
    limit = 95 if probe.limit is None else int(probe.limit)
    if probe.what.startswith("/"):
        if not re.fullmatch(r"[\w./-]+", probe.what):
            raise SettingsError(f"{probe.name}: {probe.what!r} is no path of a socket")
        at = f"-s {probe.what}"
    else:
        host, number = server_address(probe, "127.0.0.1", "6379")
        at = f"-h {host} -p {number}"
    return f"limit={limit}" + _REDIS.replace("$at", at)


def sqlite_command(probe: Probe, before: str | None) -> str:
    return f"f={quote(probe.what)}{_SQLITE}"


def server_address(probe: Probe, host: str, number: str) -> tuple[str, str]:
    """Host and port of the probe, with defaults. Raises `SettingsError`."""
    found = re.fullmatch(r"(?:([\w./-]+):)?(\d{1,5})?", probe.what)
    if found is None:
        raise SettingsError(f"{probe.name}: {probe.what!r} is no address; write 5432 or db:5432")
    return found[1] or host, found[2] or number
