"""Shell commands that probe the host itself: processors, memory, disks, processes, and what warns
before an outage: an invalid configuration, a failed reload, the free space."""

import re
from shlex import quote

from hermes.core.errors import SettingsError
from hermes.sre.probes.probe import DEFAULT_LIMITS, QUESTION_EXIT_CODE, Probe

_CPU = r"""
printf '%s\n%s\n' "$a" "$b" | awk -v limit="$limit" '
  { t = 0; for (i = 2; i <= 9; i++) t += $i; idle = $3 + $5 + $6 }
  NR == 2 { d = t - pt; u = d > 0 ? 100 * (1 - (idle - pi) / d) : 0
    printf "value=%.1f percent of the processors are busy\n", u; exit u >= limit }
  { pt = t; pi = idle }'
c=$?; printf 'keep=%s\n' "$b"; exit $c
"""
_CPU_OF_UNIT = r"""
m=$(systemctl show -p MainPID --value -- "$u" 2>/dev/null); [ "${m:-0}" -gt 0 ] || exit 0
a=$(cat /proc/"$m"/stat 2>/dev/null); sleep 0.5; b=$(cat /proc/"$m"/stat 2>/dev/null)
printf '%s\n%s\n' "$a" "$b" | awk -v limit="$limit" -v u="$u" '
  { sub(/.*\) /, ""); t = $12 + $13 }
  NR == 2 { s = (t - p) / 0.5
    printf "value=%.0f percent of one processor are burnt by %s\n", s, u; exit s >= limit }
  { p = t }'
"""
_LOAD = r"""
awk -v limit="$limit" '
  FILENAME ~ /loadavg/ { l = $1 } /^processor/ { n++ }
  END { if (n < 1) n = 1; printf "value=%.2f processes wait for each of %d processors\n", l / n, n
    exit l / n >= limit }' /proc/loadavg /proc/cpuinfo
"""
_MEMORY = r"""
awk -v limit="$limit" '
  /^MemTotal/ { t = $2 } /^MemAvailable/ { a = $2 }
  END { if (!t) exit 3; u = 100 * (1 - a / t)
    printf "value=%.1f percent of the memory are in use\n", u; exit u >= limit }' /proc/meminfo
"""
_MOUNT = r"""
now=$(awk -v p="$p" '
  { gsub(/\\040/, " ", $2) } $2 == p { print "mounted"; exit }' /proc/self/mounts)
"""
_GONE = r"""
if [ "$before" = mounted ] && [ -z "$now" ]; then
  f=$(awk -v p="$p" '$1 !~ /^#/ && $2 == p && $4 !~ /(^|,)noauto(,|$)/ { print "yes"; exit }' \
    /etc/fstab 2>/dev/null)
  [ -n "$f" ] && how="although /etc/fstab names it" || how="and /etc/fstab does not ask for it"
  printf '%s is not mounted any more, %s\nkeep=mounted\n' "$p" "$how"; exit ASKS
fi
[ -n "$now" ] && echo keep=mounted
"""
_INODES_GONE = r"""
if [ "$before" = mounted ] && [ -z "$now" ]; then
  printf '%s is not mounted any more\nkeep=mounted\n' "$p"; exit 3
fi
[ -n "$now" ] && echo keep=mounted
"""
_DISK = r"""
d=$(df -P -- "$p" 2>&1) || { echo "$p cannot be read: ${d##*: }"; exit 1; }
printf '%s\n' "$d" | awk -v limit="$limit" -v p="$p" 'NR == 2 { u = $5 + 0
  printf "value=%d percent of %s are in use, %d kB are free\n", u, p, $4
  exit u >= limit || $4 < 1024 }'
"""
_INODES = r"""
d=$(df -Pi -- "$p" 2>&1) || { echo "$p cannot be read: ${d##*: }"; exit 1; }
printf '%s\n' "$d" | awk -v limit="$limit" -v p="$p" 'NR == 2 { u = $5 + 0
  printf "value=%d percent of the inodes of %s are in use\n", u, p; exit u >= limit }'
"""
_PROCESSES = r"""
set -- /proc/[0-9]*; n=$#; m=$(cat /proc/sys/kernel/pid_max)
awk -v n="$n" -v m="$m" -v limit="$limit" 'BEGIN { u = 100 * n / m
  printf "value=%d processes, %.1f percent of what is possible\n", n, u; exit u >= limit }'
"""
_ZOMBIES = r"""
cat /proc/[0-9]*/stat 2>/dev/null | awk -v limit="$limit" '
  { sub(/.*\) /, ""); if ($1 == "Z") z++ }
  END { printf "value=%d dead processes wait for their parent\n", z; exit z + 0 >= limit }'
"""


def cpu_command(probe: Probe, before: str | None) -> str:
    """Since the last run, else over a fraction of a second."""
    head = f"limit={_limit_text(probe, DEFAULT_LIMITS['cpu'])}\n"
    if probe.what:
        return f"{head}u={quote(probe.what)}{_CPU_OF_UNIT}"
    now = "b=$(head -n 1 /proc/stat)"
    if before:
        return f"{head}a={quote(before)}; {now}{_CPU}"
    return f"{head}a=$(head -n 1 /proc/stat); sleep 0.3; {now}{_CPU}"


def declared_command(probe: Probe, before: str | None) -> str:
    return probe.what


def load_command(probe: Probe, before: str | None) -> str:
    return f"limit={_limit_text(probe, DEFAULT_LIMITS['load'])}{_LOAD}"


def memory_command(probe: Probe, before: str | None) -> str:
    return f"limit={_limit_text(probe, DEFAULT_LIMITS['memory'])}{_MEMORY}"


def disk_command(probe: Probe, before: str | None) -> str:
    gone = _GONE.replace("ASKS", str(QUESTION_EXIT_CODE))
    return f"{_mount_variables(probe, before)}{_MOUNT}{gone}{_DISK}"


def inodes_command(probe: Probe, before: str | None) -> str:
    return f"{_mount_variables(probe, before)}{_MOUNT}{_INODES_GONE}{_INODES}"


def _mount_variables(probe: Probe, before: str | None) -> str:
    """`before`: whether it was a mount point at the last run."""
    path, known = quote(probe.what or "/"), quote(before or "")
    return f"limit={_limit_text(probe, DEFAULT_LIMITS[probe.kind])} p={path} before={known}"


def processes_command(probe: Probe, before: str | None) -> str:
    return f"limit={_limit_text(probe, 80)}{_PROCESSES}"


def zombies_command(probe: Probe, before: str | None) -> str:
    return f"limit={_limit_text(probe, DEFAULT_LIMITS['zombies'])}{_ZOMBIES}"


def _limit_text(probe: Probe, usual: float) -> str:
    return f"{usual if probe.limit is None else probe.limit:g}"


CONFIG_RECHECK_S = 600
"""Seconds after which an unchanged configuration is checked again."""
CONFIG_EDIT_GRACE_S = 20
"""Seconds after the last write for which a file is not checked: it may be incomplete."""
CONFIG_MAX_WAIT_S = 45
"""A verdict of this age is not repeated for a changed file, however often it is written."""

_CONFIG = r"""
IFS=: read -r code then sum said <<< "$before"
now=$(date +%s)
# Logs and the like often lie beside the configuration, and are written all the time.
own=$(find -L $files -maxdepth 4 -type d \( -name log -o -name logs -o -name '*[_-]temp' \
  -o -name run -o -name cache \) -prune -o -type f ! -name '*.log*' ! -name '*.pid' \
  ! -name '*.swp' -printf '%T@ %s %p\n' 2>/dev/null)
named='s/^[[:space:]]*[@#]?[Ii]nclude(Optional|dir)?[[:space:]]+"?(\/[^";[:space:]]+).*/\2/p'
more=$(printf '%s\n' "$own" | cut -d ' ' -f 3- | head -n 500 | tr '\n' '\0' |
  xargs -0 -r cat -- 2>/dev/null | sed -nE "$named" | head -n 100)
# Words out of a file may be options of find, so included files are only looked at.
included() { for m in $more; do stat -L -c '%Y %s %n' -- "$m" "$m"/* 2>/dev/null; done; }
list=$({ [ -z "$own" ] || printf '%s\n' "$own"; included; } | sort -n | uniq | tail -n 2000)
[ -n "$list" ] || { echo "the configuration of $name cannot be read"; exit 3; }
new=$(printf '%s' "$list" | cksum); new=${new%% *}
last=${list##*$'\n'}
first() {
  printf '%s\n' "$o" | tr -d '\r' |
    sed -E 's|^[0-9]{4}[-/][0-9/-]+ [0-9:.]+ ([A-Z]+ )?\[[^]]*\] ([0-9]+#[0-9]+: )?||
      s|^nginx: \[[a-z]+\] ||' |
    grep -vE '^ *$|parsed OK|test failed|contains errors|skipping missing|^\[NOTICE' |
    head -n 2 | paste -sd ' ' | cut -c 1-300
}
answer() {
  if [ "$code" = 0 ] && o=$(reloaded 2>/dev/null) && [ -n "$o" ]; then
    code=1 said="the last reload of $name failed, it runs with an older configuration: $(first)"
  fi
  [ -z "$said" ] || printf '%s\n' "$said"; exit "$code"
}
again() { printf 'keep=%s\n' "$before"; answer; }
within() { awk -v now="$now" -v at="$1" -v s="$2" 'BEGIN { exit !(now - at < s) }'; }
if [ -n "$code" ]; then
  within "${last%% *}" EDIT && within "$then" WAIT && again
  [ "$sum" = "$new" ] && within "$then" EVERY && again
fi
o=$(check 2>&1 </dev/null); c=$?
case $c:$o in
  0:*) code=0 said="the configuration of $name is good" ;;
  127:*|*'ermission denied'*|*'no hostkeys available'*|*'privilege separation directory'*)
    echo "the configuration of $name cannot be checked: $(first)"; exit 3 ;;
  *) code=1 said="the configuration of $name would prevent its next start: $(first)" ;;
esac
printf 'keep=%s:%s:%s:%s\n' "$code" "$now" "$new" "$said"
answer
"""
# An error of the master that is newer than its newest worker: the reload failed.
_RELOADED = r"""
reloaded() {
  local m log line at c
  m=$(pgrep -o -f "nginx: master process.*$path") || return
  line=$(ls -l /proc/"$m"/fd | sed -n 's/.* -> \(\/.*\)$/\1/p' | sort -u |
    while read -r log; do [ ! -f "$log" ] || tail -c 65536 -- "$log"; done |
    grep -E "^[0-9/]{10} [0-9:]{8} \[emerg\] $m#" | sort | tail -n 1)
  [ -n "$line" ] || return
  at=$(date --date="${line:0:19}" +%s) || return
  for c in $(pgrep -P "$m"); do cat /proc/"$c"/stat; done |
    awk -v at="$at" -v line="$line" '
      BEGIN { while ((getline row < "/proc/stat") > 0)
        if (split(row, w, " ") && w[1] == "btime") boot = w[2] }
      { sub(/.*\) /, ""); split($0, w, " "); born = boot + int(w[20] / 100)
        if (born > newest) newest = born }
      END { if (at > newest + 1) print line }'
}
"""
_NGINX = """check() {
  local o c; o=$(nginx -e /dev/null -t -q ARGUMENTS 2>&1); c=$?
  case $o in *'invalid option: "e"'*) nginx -t -q ARGUMENTS; return ;; esac
  printf '%s' "$o"; return "$c"
}
"""
_CONFIG_CHECKS: dict[str, tuple[str, str, str]] = {
    # program: its files, how its file is named to it, and the check
    "nginx": ("/etc/nginx", "-c {}", _NGINX),
    "sshd": ("/etc/ssh", "-f {}", "check() { /usr/sbin/sshd -t ARGUMENTS; }\n"),
    "apache2": ("/etc/apache2", "-f {}", "check() { apache2ctl -t ARGUMENTS; }\n"),
    "httpd": ("/etc/httpd", "-f {}", "check() { apachectl -t ARGUMENTS; }\n"),
    "haproxy": ("/etc/haproxy", "-f {}", "check() { haproxy -c ARGUMENTS; }\n"),
    "named": ("/etc/bind", "{}", "check() { named-checkconf ARGUMENTS; }\n"),
    "sudo": ("/etc/sudoers /etc/sudoers.d", "-f {}", "check() { visudo -c ARGUMENTS; }\n"),
    "postgres": ("", "-D {}", "check() { PROGRAM -C config_file ARGUMENTS; }\n"),
}
CONFIG_PROGRAMS = tuple(_CONFIG_CHECKS)
_FORECAST = r"""
d=$(df -P -- "$p" 2>&1) || { echo "$p cannot be read: ${d##*: }"; exit 3; }
printf '%s\n' "$d" | awk -v p="$p" 'NR == 2 { printf "value=%d kB of %s are free\n", $4, p }'
"""


def config_command(probe: Probe, before: str | None) -> str:
    """`what`: a program, or `program:path` of its configuration (PostgreSQL: of its data).

    Programs: see `CONFIG_PROGRAMS`. Raises `SettingsError` for others.
    """
    name, _, path = probe.what.partition(":")
    if name not in _CONFIG_CHECKS or not re.fullmatch(r"(/[\w./@+-]+)?", path):
        raise SettingsError(
            f"{probe.name}: {probe.what!r} cannot be checked; write one of "
            f"{', '.join(CONFIG_PROGRAMS)}, or such a name, a colon and the path of its file"
        )
    files, named, check = _CONFIG_CHECKS[name]
    given = named.format(quote(path)) if path else ""
    if path and name == "haproxy":
        files = path
    elif path:
        files = path.rpartition("/")[0] if name != "postgres" else f"{path}/postgresql.conf"
    if name == "haproxy" and not path:
        given = "-f /etc/haproxy/haproxy.cfg"
    if file := probe.labels.get("config_file", ""):
        given, files = f"{given} -c config_file={quote(file)}", quote(file)
    check = check.replace("PROGRAM", quote(probe.labels.get("program", "") or name))
    head = f"name={name} path={quote(path)} files={quote(files)} before={quote(before or '')}\n"
    head += check.replace("ARGUMENTS", given)
    head += _RELOADED if name == "nginx" else "reloaded() { :; }\n"
    body = _CONFIG.replace("EVERY", str(CONFIG_RECHECK_S))
    body = body.replace("EDIT", str(CONFIG_EDIT_GRACE_S)).replace("WAIT", str(CONFIG_MAX_WAIT_S))
    return f"PATH=$PATH:/usr/sbin:/sbin\n{head}{body}"


def forecast_command(probe: Probe, before: str | None) -> str:
    """Prints the free space; the forecast is computed from many results."""
    return f"p={quote(probe.what or '/')}{_FORECAST}"
