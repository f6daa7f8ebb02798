known() { printf '%s\n' {{remembered}}; }
all=$(head -c 400 /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | awk '/^==> \/proc\/[0-9]+\/cmdline <==$/{split($2,w,"/"); p=w[3]; next} p!="" && NF{sub(/ +$/,""); print p, $0; p=""}')
# A process with a pid of its own elsewhere belongs to a container, or to a copy of this host.
inner=$(awk '/^NSpid:/ && NF > 2 { print $2 }' /proc/[0-9]*/status 2>/dev/null)
[ -z "$inner" ] || all=$(printf '%s\n--\n%s\n' "$inner" "$all" | awk '$1 == "--" { rest = 1; next } !rest { inner[$1]; next } !($1 in inner)')
# A daemon without a supervisor has failed when it is gone, unless its log reports a requested shutdown.
told='shutdown request|user requested shutdown|sigterm|sigquit|signal (3|15)[^0-9]|terminated by|shutting down|exiting on signal'
known | while IFS="$T" read -r n at start user dir log file conf line; do
  [ -n "$n" ] || continue
  pid=; [ -f "$file" ] && pid=$(head -n 1 "$file" | tr -cd 0-9)
  [ -n "$pid" ] && [ -d /proc/"$pid" ] || pid=$(printf '%s\n' "$all" | awk -v l="$line" 'BEGIN{l=substr(l,1,380)} {p=$1; sub(/^[0-9]+ /,""); if(substr($0,1,380)==l){print p; exit}}')
  logs=$(ls -1tr "$log" /var/log/"$n"/*.log /var/log/"$n".log /var/log/"${n%-server}"/*.log 2>/dev/null | sort -u)
  state=active; [ -n "$pid" ] || state=failed
  [ -n "$pid" ] || [ -z "$logs" ] || ! tail -q -n 6 $logs 2>/dev/null | grep -qiE "$told" || state=inactive
  # The init script that has its pid file and its settings owns it. Another one of the same name
  # would start another instance, with other data.
  kind=daemon; unit=$n; b=${file##*/}; b=${b%.pid}
  if [ ! -d /run/systemd/system ] && [ ! -d /run/openrc ] && [ "$file" != - ]; then
    for s in "$b" "$n" "${n%d}"; do
      [ -x /etc/init.d/"$s" ] || continue
      # The script of mariadbd reads the name of the pid file from the settings.
      [ "$s" = "$b" ] || grep -qsF "/$b.pid" /etc/init.d/"$s" ||
        { grep -qsF "${line%% *}" /etc/init.d/"$s" && grep -qsE "^[^#]*$file( |\$)" /etc/mysql/my.cnf /etc/mysql/mariadb.conf.d/*.cnf; } || continue
      case $conf in -|/etc/"$s"/*) ;; *) grep -qsF "$conf" /etc/init.d/"$s" /etc/default/"$s" || continue ;; esac
      kind=sysvinit; unit=$s; break
    done
  fi
  printf "unit=$unit\t%s\t%s\n" kind "$kind" state "$state" pid "${pid:-0}" restarts 0 since "@$at" file "$([ "$kind" = sysvinit ] && echo /etc/init.d/"$unit")" define "ExecStart=$line" define "User=$user" define "WorkingDirectory=$dir"
  [ "$start" = 0 ] || printf "unit=$unit\tstarted\t@%s\n" "$start"
  for l in $logs; do printf "unit=$unit\tlog\t%s\n" "$l"; done
  [ -f /etc/default/"$unit" ] && printf "unit=$unit\tdefine\tEnvironmentFile=%s\n" /etc/default/"$unit"
  named_files "$unit" "$line"
done
exit 0
