fact() { awk -F '\t' -v u="$1" -v k="$2" '$2==k && u==""{print $1, "loaded", $3} $2==k && $1==u{print $3}' <<'UNITS'
{{host_units}}
UNITS
}
rows() { fact '' state; }
unit_state() { fact "$1" state; }
never_started() { fact "$1" exit | grep -qxF 'not started'; }
restarts() { fact "$1" restarts; }
main_pid() { fact "$1" pid; }
definition() { fact "$1" define; }
definition_file() { fact "$1" file; }
unit_log() { LOG; }
said() { SAID; }
first_start() { d=$(fact "$1" since); [ -n "$d" ] && date -d "$d" +%s; }
last_start() { d=$(fact "$1" started); [ -n "$d" ] && date -d "$d" +%s; }
log_files() { fact "$1" log; }
