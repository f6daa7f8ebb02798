# with: supervisors
# What playbooks look with: units, what they are told (confs), what they said, what a value was.
units=$(rows | awk '{print $1}')
# Whether the alert in $a may be about a fault that shows in probes of these kinds. The alert of a probe says what it measured; any other may be about anything.
may_show_in() { case "$a" in *kind=*) printf '%s\n' "$a" | grep -qxE -- "kind=($1)" ;; esac; }
confs() {
  t=$(definition "$1"); n=${1%.service}
  { for w in $(printf '%s\n' "$t" | sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\{0,1\}//p'); do
      w=${w#*=}; w=${w%[\"\']}; case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "$w" ;; esac
    done
    ls -1 /etc/"$n"/* /etc/"$n".conf /etc/default/"$n" /opt/"$n"/etc/* /opt/"$n"/*.conf 2>/dev/null | grep -E '(\.(conf|ini|ya?ml|json|toml|env|cfg|properties)|/default/[^/]*)$'
  } | awk 'NF && !seen[$0]++'
}
was() {
  cat /var/log/*hange*.log /var/log/*/*hange*.log /srv/CHANGE* /etc/"$1"/CHANGE* 2>/dev/null | grep -F -e "$1" -e "$2" |
    grep -oiE "(was|were|before:?|old value|used to be|formerly|no longer|instead of|from) +[0-9][0-9.]*|$2 [0-9][0-9.]* *(->|→|=>)|[ ,(][0-9][0-9.]* (was|->|→|=>)" | tail -n 1 | grep -oE '[0-9][0-9.]*' | tail -n 1
}
pairs() { grep -E '^[[:space:]]*[A-Za-z_][A-Za-z0-9_.-]*[[:space:]]*[=:]' "$1" | tr -d '"' | awk '{k=$0; sub(/^[ \t]*/,"",k); v=k; sub(/[ \t]*[=:].*/,"",k); sub(/^[^=:]*[=:][ \t]*/,"",v); sub(/[ \t]*$/,"",v); print k, v}'; }
programs() { definition "$1" | sed -n 's/^ExecStart=[-@+!]*//p' | grep -oE '/[A-Za-z0-9_./-]+' | grep -vE '^/(usr|bin)/' | while read -r w; do case "$w" in *.py|*.js|*.rb|*.sh) readlink -f "$w" ;; esac; done; }
# When a process started: seconds since 1970.
born() { sed 's/.*) //' /proc/"$1"/stat | awk -v now="$(date +%s.%N)" -v hz="$(getconf CLK_TCK)" -v up="$(cut -d ' ' -f 1 /proc/uptime)" '{printf "%.2f\n", now - up + $20 / hz}'; }
# The settings of a unit that were changed after its first start.
edited_confs() { first_start "$1" | { read -r first && confs "$1" | xargs -r -d '\n' stat -c '%.Y %n' | awk -v s="$first" '$1 >= s {sub(/^[^ ]+ /, ""); print}'; }; }
# Whether a file was changed after that first start.
edited() { first_start "$1" | { read -r first && stat -c %.Y "$2" | awk -v s="$first" '{exit !($1 >= s)}'; }; }
# What a unit said since its last start, as far as files or lines tell their time. A time without a zone is taken as local and as UTC.
said_lately() {
  start=$(last_start "$1"); [ -n "$start" ] || start=$(first_start "$1"); start=${start%.*}; [ -n "$start" ] || { said "$1"; return; }
  files=$(log_files "$1"); [ -z "$files" ] || [ -n "$(printf '%s\n' "$files" | xargs -r -d '\n' stat -c %Y 2>/dev/null | awk -v s="$start" '$1 >= s')" ] || return 0
  said "$1" | awk -v now="$(date +%Y%m%d)235959" -v from="$({ date -d "@$start" +%Y%m%d%H%M%S; date -u -d "@$start" +%Y%m%d%H%M%S; } | sort | head -n 1)" '
    function month(name) { return sprintf("%02d", (index("JanFebMarAprMayJunJulAugSepOctNovDec", name) + 2) / 3) }
    BEGIN { d = "[0-9][0-9]"; clock = d ":" d ":" d; name = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)" }
    { head = substr($0, 1, 48); at = ""
      if (match(head, d d "[-/]" d "[-/]" d "[ T]" clock)) at = substr(head, RSTART, RLENGTH)
      else if (match(head, d " " name " " d d " " clock)) { at = substr(head, RSTART, RLENGTH); at = substr(at, 8, 4) month(substr(at, 4, 3)) substr(at, 1, 2) substr(at, 13) }
      else if (match(head, "^" name " [ 0-3][0-9] " clock)) { at = substr(head, 1, 15); sub(/ /, "0", at); at = month(substr(at, 1, 3)) substr(at, 5, 2) substr(at, 8); gsub(/[^0-9]/, "", at); year = substr(now, 1, 4); at = (year at "" <= now "") ? year at : (year - 1) at }
      if (at != "") { gsub(/[^0-9]/, "", at); old = (at "" < from "" && substr($0, RSTART + RLENGTH, 12) !~ "[-+]" d ":?" d) } }
    !old'
}
