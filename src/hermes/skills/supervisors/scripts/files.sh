T=$(printf '\t')
# Settings that the program of a unit reads by itself: its own text names them. $1: the unit, $2: its command.
named_files() {
  for w in $2; do
    case "$w" in /usr/*|/bin/*) ;; /*.py|/*.sh|/*.js|/*.rb) [ -f "$w" ] && head -c 100000 "$w" ;; esac
  done | grep -oE '/(etc|srv|opt)/[A-Za-z0-9_./-]+\.(conf|ini|ya?ml|toml|env|cfg|properties)' | sort -u | while read -r f; do [ -f "$f" ] && echo "unit=$1${T}define${T}EnvironmentFile=$f"; done
}
