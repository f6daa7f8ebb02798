# Prints the last error lines in the logs of one service. Of each log only the end is read.
# $own: the log files that its supervisor names; $path: a file to read instead of all others.
T=$(printf '\t'); export LC_ALL=C
want=${n//_/-}; want=${want,,}; word=${want%%[-.@]*}; [ "${#word}" -ge 4 ] || word=$want
if [ -n "$path" ]; then
  files=$path
elif [ -n "$n" ]; then
  files=$(printf '%s\n' "$own"
    for f in /var/log/*.log /var/log/*/*.log /var/log/*/*/*.log /opt/"$n"/*.log /srv/"$n"/*.log /opt/"$n"/log*/*.log /srv/"$n"/log*/*.log; do
      g=${f##/var/log/}; g=${g//_/-}; case ${g,,} in *access*) ;; *"$word"*) printf '%s\n' "$f" ;; esac
    done)
fi
printf '%s\n' "$files" | sort -u | while read -r f; do [ -f "$f" ] && echo "$(date -r "$f" +%s 2>/dev/null)$T$f"; done | sort -rn | head -n 4 |
  while IFS=$T read -r at f; do
    [ -r "$f" ] || { echo "unread=$f"; continue; }
    echo "log=$f$T$at"
    tail -c 65536 "$f" 2>/dev/null | tr -d '\r\000' | cut -c 1-400 |
      grep -aiE -A 3 'error|fatal|crit|emerg|exception|panic|fail|refused|timed? ?out|denied|no space|unreachable|cannot|could not|couldn.t|invalid|corrupt|expired|killed|out of memory|too many|read-only|in use|exited|not found|no such|unknown|misconf|File ".*", line' |
      tail -n 24 | sed 's/^/said=/'
    echo "last=$(tail -c 1000 "$f" 2>/dev/null | tail -n 1 | cut -c 1-300)"
  done
echo "zone=$(date +%z)"
exit 0
