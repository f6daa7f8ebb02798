"""Looks at a whole host that change nothing, and what they print read into values.

The shell digests logs where they lie: a log of gigabytes costs as much as a short one.
"""

import re

from msgspec.structs import replace

from hermes.core.messages import Value

STATE = r"""
rows=$(systemctl list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/')
printf '%s\n' "$rows" | awk '$3=="inactive"{print "unit=" $1 " ActiveState=inactive"}'
for u in $(printf '%s\n' "$rows" | awk '$3!="inactive"{print $1}' | head -n 60); do
  f=$(systemctl show -p ActiveState,NRestarts,MainPID "$u" 2>/dev/null | tr '\n' ' ')
  p=$(printf '%s' "$f" | grep -oE 'MainPID=[0-9]+'); p=${p#MainPID=}; m=
  [ "${p:-0}" -gt 1 ] && m=$(ps -o rss=,etimes= -p "$p" 2>/dev/null | awk '{printf "rss=%s up=%s", $1, $2}')
  echo "unit=$u $f$m"
done
for m in $(awk '$4~/^rw/ && $2!~/^\/(proc|sys|usr|dev\/pts)/ {print $2}' /proc/mounts | sort -u); do
  [ -d "$m" ] || continue
  df -P "$m" 2>/dev/null | awk -v m="$m" 'NR==2 && $2>0 {print "disk=" m " used=" $5+0 " free=" $4}'
  df -Pi "$m" 2>/dev/null | awk -v m="$m" 'NR==2 && $2>0 {print "inodes=" m " used=" $5+0}'
done
awk '/^MemTotal/{t=$2} /^MemAvailable/{a=$2} END{if(t) print "memory=" int(100*a/t)}' /proc/meminfo
one=$(cat /proc/[0-9]*/stat 2>/dev/null); sleep 0.4; two=$(cat /proc/[0-9]*/stat 2>/dev/null)
printf '%s\n--\n%s\n' "$one" "$two" | awk '/^--/{n=1;next}{p=$1;sub(/.*\) /,"");t=$12+$13;if(!n)a[p]=t;else if(p in a&&t-a[p]>=24)print "busy=" p " share=" int((t-a[p])/0.4)}'
for c in $(find /etc /srv /opt -maxdepth 5 \( -name '*.crt' -o -name '*cert*.pem' -o -name 'fullchain.pem' \) -type f 2>/dev/null | grep -vE '/ssl/certs/|backup|/old|archive' | head -n 12); do
  openssl x509 -checkend 86400 -noout -in "$c" >/dev/null 2>&1 || echo "expired=$c"
done
ss -Hltn 2>/dev/null | awk '{n=split($4,a,":"); print "port=" a[n]}' | sort -u
exit 0
"""

LOGS = r"""
digest() {
  awk -v u="$1" -v words=0 '
    { if ((length($0) > 400)) $0 = substr($0, 1, 400) }
    match($0, /(GET|POST|PUT|DELETE|PATCH|HEAD) [^ ]+/) {
      split(substr($0, RSTART, RLENGTH), w, " "); p = w[2]; sub(/[?#].*/, "", p)
      gsub(/[0-9]+/, "N", p); if (!(p in runs) && ++many > 12) p = "others"; rest = substr($0, RSTART + RLENGTH)
      if (match(rest, /[^0-9.]([1-5][0-9][0-9])([^0-9.]|$)/)) {
        s = substr(rest, RSTART + 1, 3); k = (s >= 500 || s == 429 || s == 401 || s == 403) ? "F" : "S"
        if (s != 404) { if (last[p] != k) { runs[p] = runs[p] " " k ":"; n[p] = 0; cut[p] = runs[p] }
        last[p] = k; n[p]++; runs[p] = cut[p] n[p]; asked++; if (k == "F") bad++ }
        if (k == "S") { after++; next } }
    }
    { lines++ }
    /^(Started|Reloaded) / { split("", runs); split("", last); split("", n); many = 0
      errors = bad = asked = after = 0; text1 = text2 = text3 = plain = ""; next }
    /Started |Stopped |Stopping |Starting |Main process exited|Scheduled restart|start request repeated|Failed with result/ { if ($0 ~ /exited|Failed with|repeated|killed/) died++; next }
    tolower($0) ~ /error|fatal|crit|traceback|exception|panic|fail|refused|timed? ?out|denied|no space|unreachable|cannot|could not|not possible|giving up|gave up|problem|corrupt|expired|killed|oom|alarm|exceed|violat/ {
      errors++; after = 0; text3 = text2; text2 = text1; text1 = $0; next }
    { after++; plain = $0 }
    END { printf "log=%s\ncount=%d errors=%d after=%d asked=%d bad=%d died=%d\n", u, lines, errors, after, asked, bad, died
      for (p in runs) printf "runs=%s%s\n", p, runs[p]
      if (!words) exit
      if (text3) printf "said=%s\n", text3
      if (text2) printf "said=%s\n", text2
      if (text1) printf "said=%s\n", text1
      if (plain) printf "last=%s\n", plain }'
}
for u in $(systemctl list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/ && $3!="inactive"{print $1}' | head -n 40); do
  { tail -q -n 150 /var/log/"${u%.service}"/*.log /var/log/"${u%.service}".log; journalctl -u "$u" -n 300 -o cat --no-pager; } 2>/dev/null | digest "$u"
done
exit 0
"""

WORDS = LOGS.replace("words=0", "words=1")
"""With what was said, which is read only where it can lead to an all-clear: whatever a run has read
of strangers' words makes its own later words suspect."""

CHECKS = r"""
key='(max|min|threshold|limit|critical|crit|warn|warning|alarm|alert|above|below|ceiling|upper|lower|over|under|trigger)'
show() {
  grep -qiE "^[[:space:]\"]*[a-z_.-]*$key[a-z_.-]*[\"[:space:]]*[=:>][[:space:]\"]*[0-9.]+" "$2" 2>/dev/null || return
  echo "check=$1 $2"
  grep -vE '^[[:space:]]*([#;]|$)' "$2" | grep -viE 'password|passwd|secret|token|private' | head -n 25 | cut -c1-160 | sed "s|^[[:space:]]*|  |"
}
for u in $(systemctl list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/{print $1}' | head -n 40); do
  n=${u%.service}
  { for w in $(systemctl cat "$u" 2>/dev/null | sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\{0,1\}//p'); do
      w=${w#*=}; case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "$w" ;; esac
    done; ls -1 /etc/"$n"/*.* /etc/"$n".conf /opt/"$n"/etc/* 2>/dev/null; } | awk '!seen[$0]++' | head -n 6 | while read -r f; do [ -f "$f" ] && show "$u" "$f"; done
done
for f in $(grep -hvE '^[[:space:]]*#' /etc/cron.d/* /etc/crontab 2>/dev/null | grep -oE '/[A-Za-z0-9_./-]+' | grep -vE '^/(usr|bin|dev|sbin)' | sort -u | head -n 20); do
  [ -f "$f" ] && show cron "$f"
done
for f in $(find /etc -maxdepth 3 \( -path '*alert*' -o -path '*monit*' -o -path '*check*' -o -path '*prometheus*' -o -path '*nagios*' -o -path '*watch*' \) -type f 2>/dev/null | head -n 12); do show file "$f"; done
exit 0
"""


class Unit(Value, kw_only=True, frozen=True):
    name: str
    active: str = ""
    restarts: int = 0
    pid: int = 0
    rss: int = 0
    up: int = 0


class Log(Value, kw_only=True, frozen=True):
    """What the end of one unit's log comes to."""

    unit: str
    lines: int = 0
    errors: int = 0
    after: int = 0
    """Good lines since the last bad one."""
    asked: int = 0
    bad: int = 0
    died: int = 0
    runs: dict[str, tuple[tuple[str, int], ...]] = {}
    """By path: S and F for answers that were right and not, run after run."""
    said: tuple[str, ...] = ()
    last: str = ""


class State(Value, kw_only=True, frozen=True):
    units: tuple[Unit, ...] = ()
    full: tuple[str, ...] = ()
    busy: tuple[int, ...] = ()
    expired: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    memory: int | None = None
    """Percent that is left."""
    disks: dict[str, int] = {}


class Monitor(Value, kw_only=True, frozen=True):
    """A file of settings that has a limit in it."""

    unit: str
    file: str
    lines: tuple[str, ...] = ()


class Seen(Value, kw_only=True, frozen=True):
    """One look at all of it."""

    state: State
    logs: dict[str, Log] = {}
    checks: tuple[Monitor, ...] = ()


_FULL, _FULL_SHARED, _LITTLE = 90, 60, 1024
_KEYED = re.compile(r"([A-Za-z]+)=(\S*)")


def read_state(text: str) -> State:
    units, full, busy, expired, ports, disks = [], [], [], [], [], {}
    memory = None
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        found = dict(_KEYED.findall(line))
        if kind == "unit":
            units.append(_unit(rest.split()[0], found))
        elif kind in ("disk", "inodes"):
            used, free = _int(found.get("used")), _int(found.get("free", "9999999"))
            where = found[kind]
            limit = _FULL_SHARED if where == "/dev/shm" else _FULL
            if used >= limit or (kind == "disk" and free < _LITTLE):
                full.append(where)
            if kind == "disk":
                disks[where] = used
        elif kind == "busy":
            busy.append(_int(found["busy"]))
        elif kind == "expired":
            expired.append(rest)
        elif kind == "port":
            ports.append(_int(rest))
        elif kind == "memory":
            memory = _int(rest)
    return State(
        units=tuple(units),
        full=tuple(dict.fromkeys(full)),
        busy=tuple(busy),
        expired=tuple(expired),
        ports=tuple(ports),
        memory=memory,
        disks=disks,
    )


def read_logs(text: str) -> dict[str, Log]:
    """A unit's name stands alone on its line: beside the words of its log it would read as said."""
    found: dict[str, Log] = {}
    unit = ""
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        log = found.get(unit, Log(unit=unit))
        if kind == "log":
            unit = rest
            found[unit] = Log(unit=unit)
        elif kind == "count":
            counts = {name: _int(value) for name, value in _KEYED.findall(line)}
            counts["lines"] = counts.pop("count", 0)
            found[unit] = replace(log, **counts)
        elif kind == "runs":
            path, _, marks = rest.partition(" ")
            pairs = tuple((mark[0], _int(mark[2:])) for mark in marks.split() if mark[1:2] == ":")
            found[unit] = replace(log, runs={**log.runs, path: pairs} if pairs else log.runs)
        elif kind == "said":
            found[unit] = replace(log, said=(*log.said, rest))
        elif kind == "last":
            found[unit] = replace(log, last=rest)
    return found


def read_checks(text: str) -> list[Monitor]:
    found: list[Monitor] = []
    lines: list[str] = []
    unit = file = ""
    for line in [*text.splitlines(), "check= "]:
        if line.startswith("check="):
            if file:
                found.append(Monitor(unit=unit, file=file, lines=tuple(lines)))
            unit, _, file = line.removeprefix("check=").partition(" ")
            lines = []
        else:
            lines.append(line.strip())
    return found


def _unit(name: str, found: dict[str, str]) -> Unit:
    return Unit(
        name=name,
        active=found.get("ActiveState", ""),
        restarts=_int(found.get("NRestarts")),
        pid=_int(found.get("MainPID")),
        rss=_int(found.get("rss")),
        up=_int(found.get("up")),
    )


def _int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
