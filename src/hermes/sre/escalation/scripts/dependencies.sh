# Prints the services of this host that one service uses: what its processes are connected to, and the
# addresses that its configuration names, each with its listener; then all listeners, which its errors
# may name. $n: its name; $pids: its processes.
T=$(printf '\t'); export LC_ALL=C
sockets() { awk 'match($0, /socket:.[0-9]+/) { print substr($0, RSTART + 8, RLENGTH - 8) }'; }
tables() { cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; }
listening=$(tables | awk '$4 == "0A" { print substr($2, length($2) - 3), $10 }')
# A short connection is seen in one of several looks. What is connected to its own port is a client.
connected=$(for look in 1 2 3 4; do
  for p in $pids; do ls -l /proc/"$p"/fd 2>/dev/null; done | sockets; echo --; tables; echo end; [ "$look" = 4 ] || sleep 0.2
done | awk -v listening=" $(printf '%s\n' "$listening" | cut -c 1-4 | tr '\n' ' ')" '
  $1 == "--" { table = 1; next } $1 == "end" { table = 0; split("", ours); next } !table { ours[$1]; next }
  ($4 == "01" || $4 == "02" || $4 == "08") && ($10 in ours) { split($2, near, ":"); split($3, far, ":")
    if (index(listening, " " near[2] " ")) next
    if (near[1] == far[1] || (near[1] ~ /7F$/ && far[1] ~ /7F$/)) print far[2] }' | sort -u)
base=${n%%-*}
files=$({ for p in $pids; do tr '\0 ' '\n\n' < /proc/"$p"/cmdline; done 2>/dev/null | sed -n 's|^[^/]*=\{0,1\}\(/.*\)|\1|p'
  for d in /etc/"$n" /etc/"$base" /opt/"$n" /srv/"$n" /srv/"$base"; do find -L "$d" -xdev -maxdepth 3 -type f -size -256k \( -name '*.conf' -o -name '*.cfg' -o -name '*.ini' -o -name '*.env' -o -name '*.y*ml' -o -name '*.toml' -o -name '*.json' -o -name '*.properties' -o -path '*/sites-enabled/*' \) 2>/dev/null | head -n 40; done
  printf '%s\n' /etc/default/"$n" /etc/sysconfig/"$n" /etc/"$n".conf; } | sort -u | head -n 80)
named=$(printf '%s\n' "$files" | while IFS= read -r f; do
  [ -f "$f" ] && [ -r "$f" ] && [ "$(stat -Lc %s "$f")" -lt 262144 ] && grep -Iq . "$f" 2>/dev/null || continue
  grep -vE '^[[:space:]]*([#;]|//|listen)' "$f" | grep -oE '(127[.][0-9.]+|localhost|\[::1\]):[0-9]+|unix:/[A-Za-z0-9_./-]+' | sed -E 's|^unix:||; s|^[^/].*:||' | while read -r at; do echo "$at$T$f"; done
done | sort -u | head -n 24)
links=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk '/^.proc.[0-9]/ { split($0, w, "/"); p = w[3] }
  match($0, /socket:.[0-9]+/) { print substr($0, RSTART + 8, RLENGTH - 8), p }')
# An interpreter is known by its program.
name_of() {
  local w name= args=(); { read -r name < /proc/"$1"/comm; mapfile -d '' -t args < /proc/"$1"/cmdline; } 2>/dev/null
  case $name in python*|node|ruby|perl|php|java) for w in "${args[@]:1}"; do case $w in -*) ;; *) name=${w##*/}; name=${name%.*}; break ;; esac; done ;; esac
  echo "${name//[$'\t\n']/ }"
}
pid_of() { printf '%s\n--\n%s\n' "$1" "$links" | awk '$1 == "--" { links = 1; next } !links { if ($1 != "") ours[$1]; next } $1 in ours { print $2 }' | sort -n | head -n 1; }
{ for hex in $connected; do printf '%d\tconnected\n' "0x$hex"; done; printf '%s\n' "$named"; } | while IFS=$T read -r at source; do
  [ -n "$at" ] || continue
  case $at in
    /*) inodes=$(awk -v path="$at" '$8 == path && $4 == "00010000" { print $7 }' /proc/net/unix 2>/dev/null) ;;
    *) [ "$at" -lt 65536 ] || continue; hex=$(printf '%04X' "$at"); inodes=$(printf '%s\n' "$listening" | awk -v h="$hex" '$1 == h { print $2 }') ;;
  esac
  pid=$(pid_of "$inodes")
  case " $pids " in *" ${pid:-none} "*) continue ;; esac
  echo "needs=$at$T$source$T${inodes:+yes}$T$pid$T$([ -z "$pid" ] || name_of "$pid")"
done
printf '%s\n' "$listening" | sort -u -k 1,1 | head -n 24 | while read -r hex inode; do
  pid=$([ -z "$inode" ] || pid_of "$inode")
  case " $pids " in *" ${pid:-none} "*) ;; *) [ -z "$pid" ] || echo "listener=$(printf '%d' "0x$hex")$T$pid$T$(name_of "$pid")" ;; esac
done
exit 0
