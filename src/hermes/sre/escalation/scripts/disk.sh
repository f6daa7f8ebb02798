# Prints the largest and the growing files of one file system, and deleted files that are open.
T=$(printf '\t'); export LC_ALL=C
df -P -- "$p" 2>/dev/null | awk 'NR == 2 { print "space=" $6 "\t" $5 "\t" $4 }'
df -Pi -- "$p" 2>/dev/null | awk 'NR == 2 { print "inodes=" $6 "\t" $5 "\t" $4 }'
sizes() { tr '\n' '\0' | xargs -0 stat -c "%s$T%Y$T%U$T%n" 2>/dev/null; }
files=$(timeout 2 find "$p" -xdev -type f -size +15k 2>/dev/null | head -n 20000); code=$?
all=$(printf '%s\n' "$files" | sizes | sort -rn)
[ -z "$all" ] || printf '%s\n' "$all" | head -n 8 | sed 's/^/large=/'
[ "$code" != 124 ] || echo "unchecked=all large files of $p: the search took more than 2 s"
near=$(printf '%s\n' "$all" | sort -t "$T" -k 2,2rn | head -n 100)
sleep 1
printf '%s\n--\n%s\n' "$near" "$(printf '%s\n' "$near" | cut -f 4- | sizes)" | awk -F '\t' '
  $0 == "--" { second = 1; next } !second { before[$4] = $1; next }
  ($4 in before) && $1 > before[$4] { print "grows=" $1 - before[$4] "\t" $3 "\t" $4 }' | sort -t = -k 2,2rn | head -n 5
ls -l /proc/[0-9]*/fd 2>/dev/null | awk -v p="${p%/}/" '/^\/proc\// { split($0, w, "/"); pid = w[3] }
  / \(deleted\)$/ { i = index($0, " -> "); to = substr($0, i + 4); if (index(to, p) == 1) { k = split(substr($0, 1, i - 1), w, " "); print pid, w[k], to } }' |
  head -n 200 | while read -r pid fd to; do
    size=$(stat -L -c %s /proc/"$pid"/fd/"$fd" 2>/dev/null); comm=; { read -r comm < /proc/"$pid"/comm; } 2>/dev/null
    [ "${size:-0}" -ge 65536 ] && echo "deleted=$size$T$pid$T$comm$T${to% (deleted)}"
  done | sort -t = -k 2,2rn | head -n 4
if [ "$inodes" = 1 ]; then
  timeout 2 find "$p" -xdev 2>/dev/null | sed 's|/[^/]*$||' | sort | uniq -c | sort -rn | head -n 4 | awk '{ c = $1; $1 = ""; sub(/^ /, ""); print "crowded=" c "\t" $0 }'
fi
exit 0
