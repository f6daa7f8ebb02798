# Prints what is at the paths and pids that error lines name, and file systems that are read-only.
T=$(printf '\t'); export LC_ALL=C
for p in $paths; do
  top=${p#/}; [ -d /"${top%%/*}" ] || continue  # part of an address, not a path of this host
  m=$p; while [ -n "$m" ] && [ ! -e "$m" ] && [ ! -L "$m" ]; do gone=$m; m=${m%/*}; done
  if [ "$m" = "$p" ]; then stat -c "path=%n$T%F$T%U$T%A" "$p" 2>/dev/null; else echo "absent=$p$T$gone"; fi
  while m=${m%/*}; [ -n "$m" ]; do
    case $(stat -c %A "$m" 2>/dev/null) in d????????[xt]) ;; d*) stat -c "closed=%n$T%U$T%A$T$p" "$m" ;; esac
  done
done
for i in $pids; do
  args=(); { mapfile -d '' -t args < /proc/"$i"/cmdline; } 2>/dev/null; cmd=${args[*]}; cmd=${cmd//[$'\t\n']/ }
  if [ -d /proc/"$i" ]; then echo "pid=$i$T${cmd:0:120}"; else echo "pid=$i"; fi
done
# Of the file system itself: for a confined command all mounts are read-only.
[ "$mounts" = 1 ] && awk '{ for (i = 7; $i != "-"; i++); } $(i + 3) ~ /^ro(,|$)/ && $5 !~ /^\/(proc|sys|dev|run)(\/|$)/ && $(i + 1) != "squashfs" && !/ size=0k/ { print "readonly=" $5 }' /proc/self/mountinfo | head -n 4
if [ "$resolver" = 1 ]; then
  servers=$(awk '$1 == "nameserver" { printf "%s%s", s, $2; s = " " }' /etc/resolv.conf 2>/dev/null)
  local=; case " $servers " in *" 127."*|*" ::1 "*) awk '$2 ~ /:0035$/ { found = 1 } END { exit !found }' /proc/net/udp /proc/net/udp6 2>/dev/null || local=1 ;; esac
  echo "resolver=$servers$T$local"
  for h in $hosts; do timeout 3 getent hosts "$h" >/dev/null 2>&1 || echo "unresolved=$h"; done
fi
exit 0
