# Prints what the supervisors of this host say: each line is a kind, `=`, and fields with tabs.
T=$(printf '\t'); export LC_ALL=C SYSTEMD_COLORS=0
have() { command -v "$1" >/dev/null 2>&1; }
if have systemctl; then
  rows=$(timeout 2 systemctl show -p LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,ExecMainExitTimestamp,NRestarts,MainPID,Type -- "$n" 2>/dev/null); code=$?
  [ "$code" = 124 ] && echo "unchecked=systemctl gave no answer within 2 s"
  printf '%s\n' "$rows" | awk 'NF { print "systemd=" $0 }'
  rows=$(timeout 2 systemctl list-units --type=service --all --no-legend --plain 2>/dev/null)
  printf '%s\n' "$rows" | awk '{ sub("^[^A-Za-z0-9]*", "") } $3 == "failed" && k++ < 8 { print "failedunit=" $1 }'
fi
if have rc-service && [ -x /etc/init.d/"$n" ]; then
  rows=$(timeout 2 rc-service "$n" status 2>&1 </dev/null | tail -n 1); echo "openrc=$n$T$rows"
fi
for f in "$n" "$n-server" "${n%-server}" "${n}ql"; do
  [ -x /etc/init.d/"$f" ] && { echo "initscript=$f"; break; }
done
exit 0
