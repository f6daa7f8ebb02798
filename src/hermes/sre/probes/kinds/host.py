"""Shell commands that probe the host itself: processors, memory, disks, processes."""

from shlex import quote

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
