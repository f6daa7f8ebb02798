{{supervisor_functions}}
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
for u in $(rows | awk '$3!="inactive"{print $1}' | head -n 40); do
  { tail -q -n 150 /var/log/"${u%.service}"/*.log /var/log/"${u%.service}".log; unit_log "$u" 300; } 2>/dev/null | digest "$u"
done
exit 0
