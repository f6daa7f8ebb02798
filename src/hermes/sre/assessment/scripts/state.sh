one=$(cat /proc/[0-9]*/stat 2>/dev/null); from=$(cut -d ' ' -f 1 /proc/uptime)
rows=$(systemctl list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/')
[ -n "$rows" ] || { command -v systemctl >/dev/null 2>&1 && echo 'unchecked=systemctl lists no service on this host' || echo 'unchecked=no systemctl on this host'; }
printf '%s\n' "$rows" | awk '$3=="inactive"{print "unit=" $1 " ActiveState=inactive"}'
units=$(printf '%s\n' "$rows" | awk '$3!="inactive"{print $1}' | head -n 60 | xargs -r systemctl show -p Id,ActiveState,NRestarts,MainPID 2>/dev/null |
  awk -F= 'function out() { if (id) print "unit=" id " ActiveState=" a " NRestarts=" n " MainPID=" m; id = a = n = m = "" }
    $1=="Id"{if(id) out(); id=$2} $1=="ActiveState"{a=$2} $1=="NRestarts"{n=$2} $1=="MainPID"{m=$2} /^$/{out()} END{out()}')
pids=$(printf '%s\n' "$units" | sed -n 's/.* MainPID=\([0-9][0-9]*\)$/\1/p' | awk '$1>1' | tr '\n' ',')
{ ps -o pid=,rss=,etimes= -p "${pids%,}" 2>/dev/null | sed 's/^/ps /'; printf '%s\n' "$units"; } |
  awk '$1=="ps"{of[$2]=" rss=" $3 " up=" $4; next} NF{p=$NF; sub(/.*=/,"",p); print $0 of[p]}'
mounts=$(awk '$4~/^rw/ && $2!~/^\/(proc|sys|usr|dev\/pts)/ {print $2}' /proc/mounts | sort -u | while read -r m; do [ -d "$m" ] && echo "$m"; done)
printf '%s\n' "$mounts" | xargs -r -d '\n' df -P 2>/dev/null | awk 'NR>1 && $2>0 {print "disk=" $6 " used=" $5+0 " free=" $4}'
printf '%s\n' "$mounts" | xargs -r -d '\n' df -Pi 2>/dev/null | awk 'NR>1 && $2>0 {print "inodes=" $6 " used=" $5+0}'
awk '/^MemTotal/{t=$2} /^MemAvailable/{a=$2} END{if(t) print "memory=" int(100*a/t)}' /proc/meminfo
for c in $(find /etc /srv /opt -maxdepth 5 \( -name '*.crt' -o -name '*cert*.pem' -o -name 'fullchain.pem' \) -type f 2>/dev/null | grep -vE '/ssl/certs/|backup|/old|archive' | head -n 12); do
  openssl x509 -noout -in "$c" >/dev/null 2>&1 && { openssl x509 -checkend 86400 -noout -in "$c" >/dev/null 2>&1 || echo "expired=$c"; }
done
ss -Hltn 2>/dev/null | awk '{n=split($4,a,":"); print "port=" a[n]}' | sort -u
sleep "$(awk -v from="$from" '{left = 0.4 - ($1 - from); if (left < 0) left = 0; print left}' /proc/uptime)"
two=$(cat /proc/[0-9]*/stat 2>/dev/null); to=$(cut -d ' ' -f 1 /proc/uptime)
printf '%s\n--\n%s\n' "$one" "$two" | awk -v from="$from" -v to="$to" -v self=$$ '/^--/{n=1;next}{p=$1;c=$0;sub(/^[^(]*\(/,"",c);sub(/\).*/,"",c);name[p]=c;sub(/.*\) /,"");up[p]=$2;t=$12+$13;if(!n)a[p]=t;else if(p in a&&t-a[p]>=60*(to-from)&&100*to-$20>=200)busy[p]=int((t-a[p])/(to-from))}
  END{for(q=self;q>1&&(q in up);q=up[q]) above[q]; for(p in busy){own=0; for(q=p;q>1&&(q in up);q=up[q]) if(name[q]=="hermes"||(q in above&&name[q]~/^python/)) own=1; if(!own) print "busy=" p " share=" busy[p]}}'
exit 0
