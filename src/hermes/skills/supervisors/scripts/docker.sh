# Two opening and two closing braces together would be a parameter here.
o='{''{' c='}''}' t='\t'
ids=$(timeout 5 docker ps -aq 2>/dev/null); [ "$?" = 124 ] && echo "note=docker runs and does not answer"
ids=$(printf '%s\n' "$ids" | head -n 60)
[ -n "$ids" ] || exit 0
timeout 8 docker inspect --type container --format "${o}.Name$c$t${o}.State.Status$c$t${o}.State.ExitCode$c$t${o}.State.Pid$c$t${o}.HostConfig.RestartPolicy.Name$c$t${o}.RestartCount$c$t${o}.Path$c ${o}range .Args$c${o}.$c ${o}end$c$t${o}.Config.User$c$t${o}.Config.WorkingDir$c$t${o}range .Mounts$c${o}.Source$c ${o}end$c$t${o}.Created$c$t${o}.State.FinishedAt$c" $ids 2>/dev/null | sed 's/\\t/\t/g' | awk -F '\t' '{ n=$1; sub("^/","",n); keeps=($5=="always"||$5=="unless-stopped"); u="unit=" n "\t"
  a=($2=="running"||$2=="paused")?"active":$2=="restarting"?"activating":($2=="dead"||($2=="exited"&&!keeps&&$3!=0&&$3!=137&&$3!=143))?"failed":"inactive"
  print u "kind\tdocker"; print u "state\t" a; print u "pid\t" $4; print u "restarts\t" $6; print u "exit\t" $3; print u "define\tExecStart=" $7; if($8) print u "define\tUser=" $8; if($9) print u "define\tWorkingDirectory=" $9; print u "since\t" $11; if($2!="running"&&$12!~"^0001") print u "ended\t" $12
  k=split($10,m," "); for(i=1;i<=k;i++) print u "mount\t" m[i] }' | while IFS="$T" read -r u k v; do
    case "$k" in
      mount) for f in "$v" "$v"/*.conf "$v"/*.env "$v"/*.ini "$v"/*.yaml "$v"/*.yml "$v"/*.json "$v"/*.toml; do [ -f "$f" ] && printf '%s\tdefine\tEnvironmentFile=%s\n' "$u" "$f"; done ;;
      *) printf '%s\t%s\t%s\n' "$u" "$k" "$v" ;;
    esac
  done
exit 0
