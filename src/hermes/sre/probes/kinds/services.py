"""Shell commands that probe services: ports, pages, certificates, units, cron jobs, databases."""

import re
from fnmatch import fnmatchcase
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.probe import Probe

_PORT = r"""
(: < /dev/tcp/HOST/PORT) 2>/dev/null || { echo "nothing answers at HOST:PORT"; exit 1; }
echo "HOST:PORT takes connections"
"""
_HTTP = r"""
if command -v curl >/dev/null; then
  b=$(curl -ksS -A hermes-probe -m "$t" -w '\nstatus=%{http_code} took=%{time_total}' \
    -- "$u" 2>&1 | tail -c 262144)
else
  b=$(wget -U hermes-probe -S -T "$t" -t 1 -O - -- "$u" 2>&1 | tail -c 262144)
  s=$(printf '%s\n' "$b" | sed -n 's/^ *HTTP\/[0-9.]* \([0-9]*\).*/\1/p' | tail -n 1)
  b="$b
status=${s:-000} took=0"
fi
s=${b##*status=}; b=${b%status=*}; k=${s##*took=}; s=${s%% *}
[ "$s" != 000 ] || { echo "no answer from $u: $(printf '%s' "$b" | head -c 200)"; exit 1; }
echo "value=$k seconds for status $s from $u"
case $s in STATUS) ;; *) echo "the status is $s"; exit 1 ;; esac
"""
_BODY = r"""
printf '%s' "$b" | grep -qF -- "$w" || { echo "the body lacks: $w"; exit 1; }
"""
_SLOW = r"""
awk -v k="$k" -v limit="$limit" 'BEGIN { exit k > limit }' || {
  echo "it took longer than $limit s"; exit 1; }
"""
_NO_ANSWER = r"""
case $o in CONNECTED*) ;; *) echo "nothing answers at $from"; exit 1 ;; esac
"""
_CERTIFICATE = r"""
[ -n "$c" ] || { echo "$from shows no certificate"; exit 1; }
d=$(printf '%s\n' "$c" | openssl x509 -noout -dates); e=${d#*notAfter=}; b=${d#notBefore=}
b=${b%%$'\n'*}; n=$(date +%s)
how="has expired"; s=$(date -d "$e" +%s 2>/dev/null); f=$(date -d "$b" +%s 2>/dev/null)
if [ -n "$s" ] && [ -n "$f" ]; then
  awk -v s="$s" -v n="$n" -v from="$from" 'BEGIN { left = s > n ? s - n : 0
    printf "value=%d days are left for %s\n", left / 86400, from }'
  how=$(awk -v p="$((n - s))" 'BEGIN { d = p >= 172800 ? 86400 : 3600
    printf "expired %d %s ago", p / d, d == 3600 ? "hours" : "days" }')
  [ -n "$own" ] || limit=$(awk -v s="$s" -v f="$f" -v most="$limit" 'BEGIN {
    third = int((s - f) / 3); print (third < most ? third : most) }')
fi
printf '%s\n' "$c" | openssl x509 -noout -checkend 0 >/dev/null || {
  echo "the certificate of $from $how: $e"; exit 1; }
printf '%s\n' "$c" | openssl x509 -noout -checkend "$limit" >/dev/null || {
  echo "the certificate of $from ends $e"; exit 1; }
"""
_NAME = r"""
printf '%s\n' "$c" | openssl x509 -noout -checkhost "$h" | grep -q 'does match' || {
  echo "the certificate of $from is not for $h"; exit 1; }
"""
_UNIT = r"""
f=$(systemctl show -p LoadState,ActiveState,SubState,Result,NRestarts,MainPID -- "$u" 2>/dev/null)
f="$f
"; a=${f#*ActiveState=}; a=${a%%$'\n'*}; s=${f#*SubState=}; s=${s%%$'\n'*}
l=${f#*LoadState=}; l=${l%%$'\n'*}; r=${f#*Result=}; r=${r%%$'\n'*}
n=${f#*NRestarts=}; n=${n%%$'\n'*}; p=${f#*MainPID=}; p=${p%%$'\n'*}
[ -n "$l" ] || { echo "no supervisor answers about $u"; exit 3; }
echo "value=${n:-0} restarts; $u is $a ($s)"
[ "$l" != not-found ] || { echo "there is no unit $u"; exit 1; }
"""
_ACTIVE = r"""
case $a in active|reloading) ;; *) echo "$u is $a, its result is $r"; exit 1 ;; esac
if [ "${n:-0}" -gt 0 ] 2>/dev/null && [ "${p:-0}" -gt 0 ]; then
  read -r up rest < /proc/uptime
  read -r stat < /proc/"$p"/stat 2>/dev/null || exit 1
  age=$(awk -v up="$up" -v s="$stat" 'BEGIN { sub(/.*\) /, "", s); split(s, w, " ")
    print int(up - w[20] / 100) }')
  [ "${age:-99}" -ge 5 ] || {
    echo "$u was restarted $n times by itself, the last time $age s ago"; exit 1; }
fi
exit 0
"""
_ENDED_WELL = r"""
[ "$a" != failed ] && [ "$r" = success ] || { echo "$u is $a, its result is $r"; exit 1; }
"""
_CRON = r"""
[ -e "$p" ] || { echo "the job $p is not there"; exit 1; }
[ -x "$p" ] || [ -n "$by" ] || { echo "the job $p may not be run"; exit 1; }
[ -z "$log" ] || [ ! -r "$log" ] || ! tail -n 3 -- "$log" | cut -c 1-300 |
  grep -iE 'error|fail|denied|no such|not found|traceback|cannot|no space' || exit 1
"""
MIN_CERTIFICATE_DAYS = 14.0
"""Days for which a certificate must still be valid, unless the probe has its own limit."""
_ADDRESS = re.compile(r"(?:\[?([A-Za-z0-9_.:-]+?)\]?:)?(\d{1,5})(?:/([A-Za-z0-9_.*-]+))?")
_STATUS = re.compile(r"<[1-5]00|[1-5]xx|[1-5]\d\d")


def parse_address(probe: Probe) -> tuple[str, int, str]:
    """Host, port and the TLS server name. Raises `SettingsError`."""
    found = _ADDRESS.fullmatch(probe.what)
    if found is None or not 0 < int(found[2]) < 65536:
        raise SettingsError(
            f"{probe.name}: {probe.what!r} is no address; write 8080 or db.example:5432"
        )
    return found[1] or "127.0.0.1", int(found[2]), found[3] or ""


def port_command(probe: Probe, before: str | None) -> str:
    host, number, _ = parse_address(probe)
    return _PORT.replace("HOST", host).replace("PORT", str(number))


def http_command(probe: Probe, before: str | None) -> str:
    if not re.match(r"https?://[^\s]+$", probe.what):
        raise SettingsError(f"{probe.name}: {probe.what!r} is no URL such as http://127.0.0.1:80/")
    text = f"u={quote(probe.what)} t={probe.timeout:g}"
    text += _HTTP.replace("STATUS", _status_pattern(probe))
    if probe.contains:
        text += f"w={quote(probe.contains)}{_BODY}"
    if probe.limit is not None:
        text += f"limit={probe.limit:g}{_SLOW}"
    return text


def _status_pattern(probe: Probe) -> str:
    """The accepted statuses as a shell pattern."""
    patterns = []
    for part in (probe.status or "<500").replace(" ", "").split(","):
        if not _STATUS.fullmatch(part):
            raise SettingsError(f"{probe.name}: {part!r} is no status; write 200, 2xx or <400")
        if part.startswith("<"):
            patterns += [f"{number}??" for number in range(1, int(part[1]))] or ["none"]
        else:
            patterns.append(part.replace("x", "?"))
    return "|".join(patterns)


def status_matches(probe: Probe, status: int) -> bool:
    return any(fnmatchcase(str(status), each) for each in _status_pattern(probe).split("|"))


def tls_command(probe: Probe, before: str | None) -> str:
    host, number, name = parse_address(probe)
    name = name or ("" if re.fullmatch(r"[\d.:]+|localhost", host) else host)
    asked = f" -servername {quote(name)}" if name else ""
    shown = f"openssl s_client -connect {quote(f'{host}:{number}')}{asked} </dev/null 2>/dev/null"
    text = f"from={host}:{number} {_certificate_limits(probe)}\n"
    text += f"o=$({shown}){_NO_ANSWER}"
    text += f"c=$(printf '%s\\n' \"$o\" | openssl x509 2>/dev/null){_CERTIFICATE}"
    return text + (f"h={quote(name)}{_NAME}" if name else "")


def certificate_command(probe: Probe, before: str | None) -> str:
    path = quote(probe.what)
    text = f"from={path} {_certificate_limits(probe)}\n"
    return f'{text}[ -r "$from" ] || {{ echo "$from cannot be read"; exit 3; }}\n' + (
        f'c=$(openssl x509 -in "$from" 2>/dev/null){_CERTIFICATE}'
    )


def _certificate_limits(probe: Probe) -> str:
    """Without its own limit a short-lived certificate may use two thirds of its lifetime."""
    days = MIN_CERTIFICATE_DAYS if probe.limit is None else probe.limit
    return f"limit={int(86_400 * days)} own={'' if probe.limit is None else 'yes'}"


def unit_command(probe: Probe, before: str | None) -> str:
    rest = _ENDED_WELL if probe.status == "ended-well" else _ACTIVE
    return f"u={quote(probe.what)}{_UNIT}{rest}"


def cron_command(probe: Probe, before: str | None) -> str:
    by, log = probe.labels.get("by", ""), probe.labels.get("log", "")
    return f"p={quote(probe.what)} by={quote(by)} log={quote(log)}{_CRON}exit 0\n"


_POSTGRES = r"""
r=$(pg_isready -h "$h" -p "$p" -U "${who:-postgres}" -d "$db" -t 3 2>&1) || { echo "$r"; exit 1; }
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
  *) why=$(printf '%s\n' "$r" | grep -i -m 1 '^error')
    [ -n "$why" ] || why=$(printf '%s\n' "$r" | tail -n 1)
    echo "no answer from mysql at $h:$p: ${why#error: }"; exit 1 ;;
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
