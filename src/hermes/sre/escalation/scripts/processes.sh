# Prints the processes of one service, from /proc alone. $pids: processes that its supervisor names.
# Where neither these nor a name tells, those that have listened at its ports since before $before.
T=$(printf '\t'); export LC_ALL=C
# A process of a copy of this host, on which an experiment runs; an engine owns those of containers.
copied() {
  local p=$1 above=; awk '/^NSpid:/ { exit NF < 3 }' /proc/"$p"/status 2>/dev/null || return 1
  while [ "${p:-0}" -gt 1 ]; do
    { read -r above < /proc/"$p"/comm; } 2>/dev/null; case $above in containerd-shim*|conmon|lxc*|systemd-nspawn) return 1 ;; esac
    p=$(awk '/^PPid:/ { print $2 }' /proc/"$p"/status 2>/dev/null)
  done
}
# Passes processes through. What belongs to no service by name is reduced to the listeners.
listeners() {
  local rows held hexes hz; rows=$(cat)
  case $rows in rest*) ;; *) printf '%s\n' "$rows"; return ;; esac
  hexes=" $(for p in $ports; do printf ':%04X ' "$p"; done)"; [ -n "$ports" ] || return
  [ "$before" -gt 0 ] || return
  held=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v h="$hexes" '$4 == "0A" && index(h, " " substr($2, length($2) - 4) " ") { print $10 }')
  held=$(printf '%s\n--\n%s\n' "$held" "$(ls -l /proc/[0-9]*/fd 2>/dev/null)" | awk '$1 == "--" { links = 1; next } !links { if ($1 != "") ours[$1]; next }
    /^.proc.[0-9]/ { split($0, w, "/"); p = w[3] } match($0, /socket:.[0-9]+/) && (substr($0, RSTART + 8, RLENGTH - 8) in ours) { print p }' | sort -un)
  printf '%s\n' "$rows" | awk -F '\t' -v held=" $(printf '%s ' $held)" -v at="$before" -v now="$(date +%s)" -v up="$(cut -d ' ' -f 1 /proc/uptime)" 'index(held, " " $2 " ") && now - up + $5 / 100 < at { sub("rest\t", ""); print }'
}
# A program may be a link to one of another name, as mysqld is to mariadbd.
linked=$(for c in "$n" "$n"d "$n"-server; do e=$(command -v "$c" 2>/dev/null); case $e in */sbin/*|*d|*-server) readlink -f "$e" ;; esac; done)
named=" $pids $([ -z "$linked" ] || ls -l /proc/[0-9]*/exe 2>/dev/null | awk -v l="$linked" 'BEGIN { k = split(l, x, "\n"); for (i = 1; i <= k; i++) want[x[i]] }
  { split($9, w, "/") } $NF in want { print w[3] }' | tr '\n' ' ')"
all=$(for p in /proc/[0-9]*; do
  comm= stat=; { read -r comm < "$p"/comm; read -r stat < "$p"/stat; } 2>/dev/null
  args=(); { mapfile -d '' -t args < "$p"/cmdline; } 2>/dev/null
  cmd=${args[*]}; w=(${stat##*) }); [ -n "$cmd" ] && [ "${p#/proc/}" != $$ ] && [ "${w[1]}" != $$ ] &&
    echo "${p#/proc/}$T${w[1]}$T${w[0]}$T${w[19]}$T$comm$T${cmd//[$'\t\n']/ }"
done | cut -c 1-300 | awk -F '\t' -v want="$n" -v named="$named" '
  function plain(text) { text = tolower(text); gsub("_", "-", text); sub("[.]service$", "", text); return text }
  function same(name) { name = plain(name); if (name == "") return 0
    if (name == want || name == want "-server" || name == want "d" || name == want "ql") return 1
    return length(name) > 3 && (want == name "-server" || want == name "d" || want == name "ql" || index(want, name "@") == 1) }
  BEGIN { want = plain(want) }
  want != "" { hit = same($5) || index(named, " " $1 " ") || index(named, " " $2 " "); k = split($6, w, " "); left = 1
    for (i = 1; i <= k && left > 0 && !hit; i++) if (i == 1 || w[i] !~ "^-") { m = split(w[i], part, "/"); base = part[m]; left--
      if (i == 1 && base ~ "^(python|node|ruby|perl|php|java|bash|sh|dash)[0-9.]*$") { left = 1; continue }
      if (base ~ "^(uvicorn|gunicorn|flask|hypercorn|celery|waitress)$") left = 1
      sub("[.](py|js|rb|jar|sh)$", "", base); sub(":.*", "", base); hit = same(base)
      if (!hit && m > 1 && base ~ "^(app|main|server|run|index|manage|wsgi|asgi|start)$") hit = same(part[m - 1]) }
    if (hit) { print; any = 1 } else rest[NR] = $0 }
  END { if (!any) for (i in rest) print "rest\t" rest[i] }' | listeners | sort -n | while IFS= read -r found; do copied "${found%%"$T"*}" || printf '%s\n' "$found"; done)
# PostgreSQL names the user, the database, the client and the state of each session.
printf '%s\n' "$all" | awk -F '\t' '$6 ~ /^postgres: .*(\([0-9]+\)|\[local\]) / { s = $6; sub(/^postgres: /, "", s); gsub(/\([0-9]+\)/, "", s); n[s]++ }
  END { for (s in n) print n[s] "\t" s }' | sort -rn | head -n 3 | sed 's/^/sessions=/'
printf '%s\n' "$all" | head -n 12 | while IFS=$T read -r pid parent state began comm cmd; do
  [ -n "$pid" ] || continue
  fds=$(ls /proc/"$pid"/fd 2>/dev/null | wc -l); above=; { read -r above < /proc/"$parent"/comm; } 2>/dev/null
  awk -v p="$pid" -v fds="$fds" '/^Max open files/ { files = $4 } /^Max address space/ { space = $4 } /^VmRSS/ { rss = $2 } /^Uid:/ { id = $2 }
    FILENAME == "/etc/passwd" { split($0, f, ":"); if (f[3] == id) { user = f[1]; exit } }
    END { print "limits=" p "\t" (user == "" ? id : user) "\t" rss "\t" fds "\t" files "\t" space }' /proc/"$pid"/limits /proc/"$pid"/status /etc/passwd 2>/dev/null
  echo "process=$pid$T$parent$T$state$T$began$T$above$T$comm$T${cmd:0:200}"
  ls -l /proc/"$pid"/fd 2>/dev/null | awk '{ i = index($0, " -> "); f = substr($0, i + 4) } i && $1 ~ /^l.w/ && (f ~ "^/var/log/" || f ~ "[.]log$") && !seen[f]++ { print "writes=" f }' | head -n 4
done
# Commands that kill processes of this name, such as a loop in a shell. Longer texts are scripts that may do so.
name=${n,,}; name=${name//_/-}; name=${name%-server}
[ -z "$name" ] || for p in /proc/[0-9]*; do
  args=(); { mapfile -d '' -t args < "$p"/cmdline; } 2>/dev/null; cmd=${args[*]}; cmd=${cmd//[$'\t\n']/ }
  [ "${#cmd}" -le 200 ] || continue
  low=${cmd,,}; low=${low//_/-}; low=${low//[][]/}
  case " $low" in *[\ /]pkill\ *"$name"*|*[\ /]killall\ *"$name"*|*[\ /]kill\ *"$name"*) echo "killer=${p#/proc/}$T$cmd" ;; esac
done
echo "uptime=$(cut -d ' ' -f 1 /proc/uptime)"
echo "uid=$(id -u)"
exit 0
