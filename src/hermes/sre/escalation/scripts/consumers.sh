# Prints the processes that use most of the processors, the memory and the file descriptors.
T=$(printf '\t'); export LC_ALL=C
one=$(cat /proc/[0-9]*/stat 2>/dev/null); from=$(cut -d ' ' -f 1 /proc/uptime)
row() {
  local cmd= user=; local -a w=()
  user=$(awk 'FILENAME ~ /status/ { if ($1 == "Uid:") id = $2; next } { split($0, f, ":"); if (f[3] == id) { user = f[1]; exit } } END { print user == "" ? id : user }' /proc/"$2"/status /etc/passwd 2>/dev/null)
  { mapfile -d '' -t w < /proc/"$2"/cmdline; } 2>/dev/null; cmd=${w[*]}; cmd=${cmd//[$'\t\n']/ }
  [ -n "$cmd" ] || { read -r cmd < /proc/"$2"/comm; } 2>/dev/null
  echo "$1=$3$T$2$T$user$T${cmd:0:160}"
}
awk '/^MemTotal/ { t = $2 } /^MemAvailable/ { a = $2 } END { print "memory=" t "\t" a }' /proc/meminfo
awk '/^VmRSS/ { split(FILENAME, w, "/"); print $2, w[3] }' /proc/[0-9]*/status 2>/dev/null | sort -rn | head -n 3 |
  while read -r size pid; do row rss "$pid" "$size"; done
ls /proc/[0-9]*/fd 2>/dev/null | awk '/^.proc/ { split($0, w, "/"); p = w[3]; next } NF { n[p]++ } END { for (p in n) print n[p], p }' | sort -rn | head -n 3 |
  while read -r count pid; do row descriptors "$pid" "$count"; done
cat /proc/[0-9]*/comm 2>/dev/null | sort | uniq -c | sort -rn | head -n 1 | awk '{ c = $1; $1 = ""; sub(/^ /, ""); print "many=" c "\t" $0 }'
sleep 1
two=$(cat /proc/[0-9]*/stat 2>/dev/null); to=$(cut -d ' ' -f 1 /proc/uptime)
printf '%s\n--\n%s\n' "$one" "$two" | awk -v from="$from" -v to="$to" '/^--/ { n = 1; next }
  { p = $1; sub(/.*\) /, ""); t = $12 + $13; if (!n) a[p] = t; else if (p in a) print int((t - a[p]) / (to - from)), p }' |
  sort -rn | head -n 3 | while read -r share pid; do row cpu "$pid" "$share"; done
exit 0
