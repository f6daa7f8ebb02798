for f in /etc/init.d/*; do
  n=${f##*/}; head -n 1 "$f" | grep -q openrc-run && grep -q '^command=' "$f" || continue
  text=$(head -c 20000 "$f" | tr -d "\"'" | sed "s|\${RC_SVCNAME}|$n|g;s|\$RC_SVCNAME|$n|g;s|\${SVCNAME}|$n|g")
  file=$(printf '%s\n' "$text" | sed -n 's/^pidfile=//p' | tail -n 1); state=inactive; pid=0
  [ -e /run/openrc/started/"$n" ] && state=active
  [ -e /run/openrc/failed/"$n" ] && state=failed
  if [ "$state" = active ] && [ -n "$file" ]; then pid=$(head -n 1 "$file" 2>/dev/null | tr -cd 0-9); [ -d /proc/"${pid:-none}" ] || { state=failed; pid=0; }; fi
  printf "unit=$n\t%s\t%s\n" kind openrc state "$state" pid "${pid:-0}" restarts 0 since "$(stat -c @%Y /run/openrc/started/"$n" 2>/dev/null)" file "$f"
  printf '%s\n' "$text" | awk -F= -v u="unit=$n\tdefine\t" '$1=="command"{c=$2} $1=="command_args"{a=$0; sub(/^[^=]*=/,"",a)} $1=="command_user"{print u "User=" $2} $1=="directory"{print u "WorkingDirectory=" $2} END{print u "ExecStart=" c " " a}'
  printf '%s\n' "$text" | sed -n "s|^output_log=|unit=$n${T}log${T}|p;s|^error_log=|unit=$n${T}log${T}|p"
  [ -f /etc/conf.d/"$n" ] && printf "unit=$n\tdefine\tEnvironmentFile=%s\n" /etc/conf.d/"$n"
  for l in /var/log/"$n"/*.log /var/log/"$n".log; do [ -f "$l" ] && printf "unit=$n\tlog\t%s\n" "$l"; done
  named_files "$n" "$text"
done
exit 0
