# Prints who listens at some ports, from /proc alone.
T=$(printf '\t'); export LC_ALL=C
links=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk '/^.proc.[0-9]/ { split($0, w, "/"); p = w[3] }
  match($0, /socket:.[0-9]+/) { print substr($0, RSTART + 8, RLENGTH - 8), p }')
for port in $ports; do
  hex=$(printf ':%04X' "$port")
  rows=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v h="$hex" '$4 == "0A" && substr($2, length($2) - 4) == h { split($5, q, ":"); print $10, q[2], $8 }')
  [ -n "$rows" ] || { echo "free=$port"; continue; }
  printf '%s\n' "$rows" | awk -v p="$port" '{ print "queue=" p "\t" $2 }'
  pids=$(printf '%s\n--\n%s\n' "$rows" "$links" | awk '$1 == "--" { links = 1; next } !links { ours[$1]; next } $1 in ours { print $2 }' | sort -un | head -n 4)
  # Without the right to look into other processes only the user of the socket is known.
  [ -n "$pids" ] || awk -F : -v p="$port" -v id="$(printf '%s\n' "$rows" | awk 'NR == 1 { print $3 }')" '$3 == id { user = $1; exit } END { print "hidden=" p "\t" (user == "" ? id : user) }' /etc/passwd 2>/dev/null
  for pid in $pids; do
    comm=; args=(); { read -r comm < /proc/"$pid"/comm; mapfile -d '' -t args < /proc/"$pid"/cmdline; } 2>/dev/null; cmd=${args[*]}
    user=$(awk '/^Uid:/ { id = $2 } FILENAME == "/etc/passwd" { split($0, f, ":"); if (f[3] == id) { user = f[1]; exit } } END { print user == "" ? id : user }' /proc/"$pid"/status /etc/passwd 2>/dev/null)
    cmd=${cmd//[$'\t\n']/ }
    # After the name, which may have blanks: state, parent, group, session … start. Who started it is its parent, or the leader of its session where that is gone.
    read -r parent session ticks <<< "$(sed 's/.*) //' /proc/"$pid"/stat 2>/dev/null | awk '{ print $2, $4, $20 }')"
    [ "${parent:-0}" -gt 1 ] || parent=$session
    from=; [ "${parent:-0}" -gt 1 ] && [ "$parent" != "$pid" ] && from=$(tr '\0\n\t' '   ' < /proc/"$parent"/cmdline 2>/dev/null | cut -c -80)
    since=$(awk -v now="$(date +%s)" -v t="$ticks" '{ print int(now - $1 + t / 100) }' /proc/uptime)
    login=; { read -r login < /proc/"$pid"/loginuid; } 2>/dev/null
    login=$(awk -F : -v id="$login" '$3 == id { print $1; exit }' /etc/passwd 2>/dev/null)
    echo "holder=$port$T$pid$T$user$T$comm$T${cmd:0:200}$T$since$T${from:+pid $parent, $from}$T$login"
  done
done
exit 0
