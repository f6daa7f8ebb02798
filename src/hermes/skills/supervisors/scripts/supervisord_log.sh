# Prints process id, configuration and log of each running supervisord.
supervisords() {
  grep -lsx supervisord /proc/[0-9]*/comm | cut -d / -f 3 | while read -r pid; do
    file=$(tr '\0' '\n' < /proc/"$pid"/cmdline 2>/dev/null | awk 'on{print; exit} $0=="-c"||$0=="--configuration"{on=1; next} sub("^--configuration=",""){print; exit} /^-c./{print substr($0,3); exit}')
    case "$file" in ''|/*) ;; *) file=$(readlink /proc/"$pid"/cwd)/$file ;; esac
    for f in /etc/supervisor/supervisord.conf /etc/supervisord.conf; do [ -f "$file" ] || file=$f; done
    log=$(awk -v d="${file%/*}" '$0~"^[[]"{on=($0~"^[[]supervisord[]]")} on && sub("^logfile *= *",""){sub("[ \t]*;.*",""); gsub("%[(]here[)]s",d); print; exit}' < "$file" 2>/dev/null)
    [ -f "$log" ] || log=$(ls -l /proc/"$pid"/fd 2>/dev/null | sed -n 's|.* -> \(/.*supervisord[^/]*\)$|\1|p' | head -n 1)
    printf '%s\t%s\t%s\n' "$pid" "$file" "${log:--}"
  done | awk -F '\t' '!seen[$2]++'
}
# Prints what `supervisorctl status` would, from the log alone. $1: the log.
logged_states() {
  tail -n 4000 "$1" 2>/dev/null | awk '
    / supervisord started with pid /{split("",state)}
    match($0,/ spawned: \047[^\047]+\047/){n=substr($0,RSTART+11,RLENGTH-12); state[n]="STARTING"; pid[n]=$NF; next}
    match($0,/ (success|gave up|exited|stopped): [^ ]+ /){w=substr($0,RSTART,RLENGTH); k=w; sub(/:.*/,"",k); n=w; sub(/.*: /,"",n); sub(/ $/,"",n)
      if(k==" success") state[n]="RUNNING"; if(k==" gave up") state[n]="FATAL"; if(k==" stopped") state[n]="STOPPED"
      if(k==" exited") state[n]=(state[n]=="STARTING")?"BACKOFF":"EXITED"; next}
    match($0,/ waiting for [^ ,]+ to stop/){split(substr($0,RSTART,RLENGTH),part," "); state[part[3]]="STOPPING"}
    END{for(n in state) print n, state[n], "pid", pid[n]}' | sort | while read -r n state _ pid; do
      case "$state" in RUNNING|STARTING) [ -d "/proc/$pid" ] || state=EXITED ;; esac
      case "$state" in RUNNING|STARTING) echo "$n $state pid $pid," ;; *) echo "$n $state" ;; esac
    done
}
