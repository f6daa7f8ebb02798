units_of() {
place=; case "$file" in ''|/etc/supervisord.conf|/etc/supervisor/supervisord.conf) ;; /*) place=$file ;; esac
include=$(awk -v d="/${file%/*}" '$0~"^[[]"{on=($0~"^[[]include[]]")} on && sub("^files *= *",""){n=split($0,w," "); for(i=1;i<=n;i++){gsub("%[(]here[)]s",d,w[i]); print (substr(w[i],1,1)=="/")?w[i]:d "/" w[i]}}' < "$file" 2>/dev/null)
state=$(if [ -z "$place" ]; then timeout 10 supervisorctl status; elif [ "${place##*/}" = supervisord.conf ]; then cd "${place%/*}" && timeout 10 supervisorctl status 2>&1; fi 2>/dev/null | grep -E '^[^ ]+ +(RUNNING|STARTING|BACKOFF|STOPPING|STOPPED|EXITED|FATAL|UNKNOWN)')
case "$place" in ''|*/supervisord.conf) [ -n "$state" ] || { echo "note=supervisord runs and does not answer"; return; } ;; *) state=$(logged_states "$log") ;; esac
[ -n "$state" ] || { echo "note=the programs of supervisord are not known: its log cannot be read; ask supervisorctl -c $place status"; return; }
{ tail -n 800 "$log" 2>/dev/null | sed 's/^/log /'; printf '%s\n' "$state"; } | awk -v place="$place" '
  $1=="log" { at=$2 " " $3; sub(/,.*/,"",at)
    if(match($0,/ spawned: \047[^\047]+\047/)){n=substr($0,RSTART+11,RLENGTH-12); last[n]=at; if(!(n in first)) first[n]=at}
    if(match($0,/ exited: [^ ]+ \(/)){split(substr($0,RSTART,RLENGTH),w," "); count[w[2]]++; bad[w[2]]=!index($0,"; expected)"); code[w[2]]=$0; sub(/.*\(/,"",code[w[2]]); sub(/\).*/,"",code[w[2]]); end[w[2]]=at}
    if(match($0,/ stopped: [^ ]+ \(/)){split(substr($0,RSTART,RLENGTH),w," "); count[w[2]]=0; end[w[2]]=at; code[w[2]]=$0; sub(/.*\(/,"stopped on request, ",code[w[2]]); sub(/\).*/,"",code[w[2]])}
    if(/supervisord started/) split("",count); next }
  { n=$1; sub(/.*:/,"",n); pid=0; if($2=="RUNNING"){pid=$4; sub(",","",pid)}
    a=($2=="RUNNING")?"active":($2=="STARTING"||$2=="BACKOFF")?"activating":($2=="FATAL"||$2=="UNKNOWN"||($2=="EXITED"&&bad[n]))?"failed":($2=="STOPPING")?"deactivating":"inactive"
    u="unit=" $1 "\t"; print u "kind\tsupervisord"; print u "state\t" a; print u "pid\t" pid; print u "restarts\t" count[n]+0
    if($2=="STOPPED" && $3=="Not") code[n]="not started"
    if(first[n]) print u "since\t" first[n]; if(last[n]) print u "started\t" last[n]; if(code[n]) print u "exit\t" code[n]; if(end[n]) print u "ended\t" end[n]; if(place) print u "place\t" place }'
for f in "$file" $include; do [ -f "$f" ] && { echo "; in $f"; head -c 100000 < "$f"; echo; }; done | awk '
  $1==";"&&$2=="in"{file=$3; n=""; next}
  substr($0,1,1)=="["{n=""; if(match($0,"^[[]program:[^]]+[]]")){n=substr($0,10,RLENGTH-10); print "unit=" n "\tfile\t" file} next}
  n!=""{k=$0; sub("[ \t]*=.*","",k); v=$0; if(!sub("^[^=]*=[ \t]*","",v)) next; sub("[ \t]+;.*","",v); if(k!="command") gsub("[\"\047]","",v); u="unit=" n "\t"
    if(k=="command") print u "define\tExecStart=" v; if(k=="user") print u "define\tUser=" v; if(k=="directory") print u "define\tWorkingDirectory=" v
    if(k=="environment") print u "define\tEnvironment=" v; if((k=="stdout_logfile"||k=="stderr_logfile") && substr(v,1,1)=="/") print u "log\t" v }' | while IFS="$T" read -r u k v; do
      printf '%s\t%s\t%s\n' "$u" "$k" "$v"; case "$v" in ExecStart=*) named_files "${u#unit=}" "$(printf '%s' "${v#ExecStart=}" | tr -d "\"'")" ;; esac
    done
}
supervisords | while IFS="$T" read -r pid file log; do units_of < /dev/null; done
