rows=$(timeout 8 systemctl list-units --type=service --all --no-legend --plain 2>/dev/null)
[ "$?" = 124 ] && echo "note=systemd runs and does not answer"
units=$({ printf '%s\n' "$rows" | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/ && $2=="loaded" && ($3!="inactive" || $4=="failed"){print $1}' | head -n 40; printf '%s\n' {{wanted}}; } | awk 'NF && !seen[$1]++')
[ -n "$units" ] || exit 0
printf '%s\n' "$units" | xargs -r timeout 8 systemctl show -p Id,Names,LoadState,ActiveState,MainPID,NRestarts,FragmentPath,ActiveEnterTimestamp,ExecMainCode,ExecMainStatus,ExecMainExitTimestamp 2>/dev/null | awk '
  function out() { if(v["Id"]!="" && v["LoadState"]!="not-found"){u="unit=" v["Id"] "\t"; print u "kind\tsystemd"; print u "state\t" v["ActiveState"]; k=split(v["Names"],w," "); for(i=1;i<=k;i++) if(w[i]!=v["Id"]) print u "alias\t" w[i]; print u "pid\t" v["MainPID"]; print u "restarts\t" v["NRestarts"]; print u "file\t" v["FragmentPath"]
    if(v["ActiveEnterTimestamp"]!="") print u "since\t" v["ActiveEnterTimestamp"]
    if(v["ExecMainExitTimestamp"]!=""){print u "ended\t" v["ExecMainExitTimestamp"]; print u "exit\t" ((v["ExecMainCode"]~"^(2|3|killed|dumped)$")?"killed by signal ":"exit status ") v["ExecMainStatus"]}} split("",v) }
  /^$/{out(); next} {k=$0; sub("=.*","",k); if(k=="Id"&&v["Id"]!="") out(); sub("^[^=]*=",""); v[k]=$0} END{out()}'
printf '%s\n' "$units" | xargs -r timeout 8 systemctl cat 2>/dev/null | awk '
  $1=="#" && substr($2,1,1)=="/"{n=split($2,w,"/"); u=w[n]; if(u~"[.]conf$"){u=w[n-1]; sub("[.]d$","",u)} next}
  $0~"^(ExecStart|EnvironmentFile|Environment|WorkingDirectory|User|MemoryMax)="{print "unit=" u "\tdefine\t" $0}'
exit 0
