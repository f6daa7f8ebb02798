rows() { systemctl list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/ && $2=="loaded"'; }
unit_state() { systemctl show -p ActiveState --value "$1" 2>/dev/null; }
never_started() { false; }
restarts() { systemctl show -p NRestarts --value "$1"; }
main_pid() { systemctl show -p MainPID --value "$1"; }
definition() { systemctl cat "$1" 2>/dev/null; }
definition_file() { systemctl show -p FragmentPath --value "$1"; }
unit_log() { journalctl -u "$1" --lines="$2" -o cat --no-pager 2>/dev/null; }
first_start() { journalctl -u "$1" -n 3000 -o short-unix --no-pager 2>/dev/null | awk '/Started /{print $1; exit}'; }
last_start() { d=$(systemctl show -p ExecMainStartTimestamp --value "$1" 2>/dev/null); [ -n "$d" ] && date -d "$d" +%s; }
log_files() { :; }
said() { { unit_log "$1" 80; tail -q -n 40 /var/log/"${1%.service}"/*.log /var/log/"${1%.service}".log; } 2>/dev/null; }
