# with: supervisors mounts
a={{alert}}; s=; v=; u=; w=no
rows=$(rows)
[ -n "$rows" ] || { command -v systemctl >/dev/null 2>&1 && echo 'unchecked=systemctl lists no service on this host' || echo 'unchecked=no systemctl on this host, and no other supervisor or daemon is known'; exit 0; }
for c in $(printf '%s\n' "$rows" | awk '{print $1}'); do
  n=${c%.service}
  case "$a" in *"$n"*) [ ${#n} -gt ${#s} ] && s=$n && v=$c ;; esac
done
sick=$(printf '%s\n' "$rows" | awk '$3=="failed"||$3=="activating"{print $1}')
u=$(printf '%s\n' "$sick" | grep -Fx -- "$v")
# One that runs no more since its supervisor was started, and that nobody stopped, did not come back.
[ -z "$u" ] && [ -n "$s" ] && never_started "$v" && u=$v
[ -z "$u" ] && [ -n "$s" ] && [ "$(restarts "$v")" -ge 1 ] && u=$v
if [ -z "$u" ] && [ "$(printf '%s\n' "$sick" | grep -c .)" = 1 ]; then
  # A unit that fails for itself, and that the one in the alert does not know, is not what rang.
  [ -z "$s" ] && u=$sick
  [ -n "$s" ] && u=$({ definition "$v" | grep -oE '/[A-Za-z0-9_./-]+'; ls -1 /etc/"$s"/*.* /etc/"$s".conf /opt/"$s"/etc/* 2>/dev/null; } | while read -r f; do [ -f "$f" ] && head -c 20000 "$f" | grep -qwF -- "${sick%.service}" && echo "$sick"; done | head -n 1)
fi
[ -n "$u" ] && w=yes
[ -z "$u" ] && [ -n "$s" ] && u=$v
# One that does not run and has not failed was stopped by people.
[ "$(unit_state "$u")" = inactive ] && ! never_started "$u" && u=
printf 'subject=%s\nunit=%s\nsick=%s\n' "$s" "$u" "$w"
for m in $(writable_mounts | grep -v '^/dev/pts'); do
  df -P "$m" 2>/dev/null | awk -v m="$m" 'NR==2 && $2>0 && ($5+0>=90 || $4<1024 || (m=="/dev/shm" && $5+0>=60)) {print "full=" m}'
done
[ -n "$u" ] || exit 0
n=${u%.service}; log=$({ unit_log "$u" 120; tail -q -n 60 /var/log/"$n"/*.log /var/log/"$n".log; } 2>/dev/null)
while read -r name what; do printf '%s\n' "$log" | grep -qiE -- "$what" && echo "saw=$name"; done <<'SAW'
oom oom|out of memory
crash traceback|exception|panic|fatal|error
variable KeyError|not set|unset|unbound variable|must be set|environment variable|missing.*[A-Z][A-Z0-9]*_|required.*[A-Z][A-Z0-9]*_|[A-Z][A-Z0-9]+_[A-Z0-9_]+.*(missing|required|empty|undefined)
path no such file|can't open file|not found|cannot stat|203|chdir
module no module named|ModuleNotFoundError|ImportError|cannot find module|cannot import
port address already in use|EADDRINUSE|in use|cannot listen|bind
denied permission denied|EACCES|not permitted|not writable|cannot write|read-only|wrong ownership
lock lock|already running|another instance|pid ?file
data corrupt|malformed|json|decode|checksum|truncat|unexpected end|not a database|parse|bad record|cannot load|unreadable|damaged
space no space|disk full|quota
upstream upstream|bad gateway|502|connect.*refused
auth password|authentication|401|403|token|expired|unauthori[sz]ed|forbidden
database database|connection slots|too many (clients|connections)|sql|postgres|deadlock|statement|lock timeout
timeout timed? ?out|unreachable|no route|resolve|name or service
SAW
conf=$({ for w in $(definition "$u" | sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\{0,1\}//p'); do w=${w#*=}; case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "$w" ;; esac; done; ls -1 /etc/"$n"/*.* /etc/"$n".conf /opt/"$n"/etc/* 2>/dev/null; } | awk '!seen[$0]++')
printf '%s\n' "$conf" | while read -r f; do [ -L "$f" ] && readlink "$f" | grep -qiE 'stag|test|preprod|dev|qa' && echo hint=staging; done
[ -n "$(ls -d /srv/*/.git /root/*/.git /opt/*/.git /var/lib/*/.git /etc/.git /home/*/*/.git 2>/dev/null)" ] && echo hint=declared
conf=$(printf '%s\n' "$conf" | while read -r f; do [ -f "$f" ] && echo "$f"; done | xargs -r -d '\n' head -q -c 20000)
while read -r name what; do printf '%s\n' "$conf" | grep -qiE -- "$what" && echo "hint=$name"; done <<'HINT'
pause (interval|poll|sleep|every|refresh|delay|pause|period|wait|tick|scan)[a-z_.]*[[:space:]]*[=:][[:space:]]*0*(\.0*)?(ms|s)?[[:space:]]*$
unlimited (cache|limit|max|keep|size|entries|buffer|history|retain|backlog|capacity)[a-z_.]*[[:space:]]*[=:][[:space:]]*(0|-1|[0-9]{6,}|unlimited|none|inf(inity)?|off)[[:space:]]*$
nobody (workers?|replicas|instances|concurrency|processes|threads|consumers|pool_size|slots)[[:space:]]*[=:][[:space:]]*"?0"?[[:space:]]*$
staging ^[[:space:]]*(profile|env|environment|stage|mode|config|tier)[[:space:]]*[=:][[:space:]]*"?(staging|stage|test|testing|preprod|dev|qa)"?[[:space:]]*$
slow (delay|pause|sleep|wait|throttle|interval|linger|idle)[a-z_.]*[[:space:]]*[=:][[:space:]]*[0-9]+
slow (batch|prefetch|concurrency|workers?|parallel|rate)[a-z_.]*[[:space:]]*[=:][[:space:]]*[0-9]+
HINT
exit 0
