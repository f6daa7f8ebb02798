# runit and s6: a folder for each service, with a script `run`. Each line: kind, folder, and what its supervisor says.
folders=$(head -c 400 /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | awk '/s6-svscan |runsvdir /{for(i=2;i<=NF;i++) if($i~/^\//&&$i!~/\/(s6-svscan|runsvdir)$/) print $i}' | sort -u)
for d in $folders; do
  for s in "$d"/*; do
    [ -d "$s/supervise" ] || continue
    if [ -e "$s/supervise/stat" ]; then
      said=$(timeout 3 sv status "$s" 2>/dev/null | head -n 1)
      # sv opens a pipe for writing, which a confined command may not.
      case "$said" in run:*|down:*|finish:*) ;; *) pid=$(cat "$s/supervise/pid" 2>/dev/null); [ -d "/proc/${pid:-none}" ] && said="run: (pid $pid)" ;; esac
      echo "runit $s $said"
    else echo "s6 $s $(timeout 3 s6-svstat "$s" 2>/dev/null)"; fi
  done
done | while read -r kind s said; do
  n=${s##*/}; pid=$(printf '%s' "$said" | grep -oE 'pid [0-9]+' | head -n 1); pid=${pid#pid }; state=
  age=$(printf '%s' "$said" | grep -oE '[0-9]+ ?s' | head -n 1 | tr -cd 0-9)
  case "$said" in
    run:*|up*) state=active; [ "${age:-9}" -ge 2 ] || state=activating ;;
    *'want up'*) state=failed ;;
    down*|finish*) state=inactive ;;
  esac
  printf "unit=$n\t%s\t%s\n" kind "$kind" state "$state" pid "${pid:-0}" restarts 0 since "$(stat -c @%Y "$s"/supervise/lock 2>/dev/null)" place "$s" file "$s/run"
  text=$(head -c 20000 "$s"/run 2>/dev/null)
  printf '%s\n' "$text" | awk -v u="unit=$n\tdefine\t" '{sub("^[ \t]+","")} $1=="exec"{v=$0; sub("^exec +","",v); print u "ExecStart=" v} $1=="."{print u "EnvironmentFile=" $2} $1=="cd"{print u "WorkingDirectory=" $2}
    {for(i=1;i<NF;i++){if($i=="-u"&&$(i-1)=="chpst") print u "User=" $(i+1); if($i~"setuidgid$") print u "User=" $(i+1)}}'
  named_files "$n" "$text"
  for l in "$s"/log/main/current /var/log/"$n"/current /var/log/"$n"/*.log /var/log/"$n".log; do [ -f "$l" ] && printf "unit=$n\tlog\t%s\n" "$l"; done
done
exit 0
