# Prints what the supervisors of this host say: each line is a kind, `=`, and fields with tabs.
T=$(printf '\t'); export LC_ALL=C SYSTEMD_COLORS=0
have() { command -v "$1" >/dev/null 2>&1; }
if have supervisorctl && grep -qsx supervisord /proc/[0-9]*/comm; then
  rows=$(timeout 2 supervisorctl status 2>&1 </dev/null); code=$?
  if [ "$code" = 124 ]; then
    echo "unchecked=supervisorctl gave no answer within 2 s"
  else
    printf '%s\n' "$rows" | head -n 80 | awk 'NF > 1 && $2 ~ /^[A-Z]+$/ {
      name = $1; state = $2; $1 = $2 = ""; sub(/^ +/, ""); print "supervisord=" name "\t" state "\t" $0; n++ }
      END { if (!n) print "unchecked=supervisorctl lists no program" }'
  fi
fi
if have systemctl; then
  timeout 2 systemctl show -p LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,ExecMainExitTimestamp,NRestarts,MainPID,Type -- "$n" 2>/dev/null </dev/null | sed 's/^/systemd=/'
  [ "${PIPESTATUS[0]}" = 124 ] && echo "unchecked=systemctl gave no answer within 2 s"
  timeout 2 systemctl list-units --type=service --all --no-legend --plain 2>/dev/null </dev/null |
    sed 's/^[^A-Za-z0-9]*//' | awk '$3 == "failed" && k++ < 8 { print "failedunit=" $1 }'
fi
for engine in docker podman; do
  have "$engine" || continue
  rows=$(timeout 2 "$engine" ps -a --format '{{.Names}}\t{{.Status}}\t{{.Ports}}' 2>/dev/null </dev/null); code=$?
  [ "$code" = 124 ] && echo "unchecked=$engine gave no answer within 2 s"
  [ "$code" = 0 ] && [ -n "$rows" ] && { printf '%s\n' "$rows" | head -n 60 | sed "s/^/$engine=/"; break; }
done
if have rc-service && [ -x /etc/init.d/"$n" ]; then
  rows=$(timeout 2 rc-service "$n" status 2>&1 </dev/null | tail -n 1); echo "openrc=$n$T$rows"
elif have sv; then
  rows=$(timeout 2 sv status "$n" 2>/dev/null </dev/null | head -n 1)
  [ -n "$rows" ] && echo "runit=$n$T$rows"
fi
for f in "$n" "$n-server" "${n%-server}" "${n}ql"; do
  [ -x /etc/init.d/"$f" ] && { echo "initscript=$f"; break; }
done
have service && echo "have=service"
for c in systemctl supervisorctl docker; do have "$c" || echo "missing=$c"; done
exit 0
