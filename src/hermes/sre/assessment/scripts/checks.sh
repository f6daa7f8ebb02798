{{supervisor_functions}}
key='(max|min|threshold|limit|critical|crit|warn|warning|alarm|alert|above|below|ceiling|upper|lower|over|under|trigger)'
show() {
  grep -qiE "^[[:space:]\"]*[a-z_.-]*$key[a-z_.-]*[\"[:space:]]*[=:>][[:space:]\"]*[0-9.]+" "$2" 2>/dev/null || return
  echo "check=$1 $2"
  grep -vE '^[[:space:]]*([#;]|$)' "$2" | grep -viE 'password|passwd|secret|token|private' | head -n 25 | cut -c1-160 | sed "s|^[[:space:]]*|  |"
}
for u in $(rows | awk '{print $1}' | head -n 40); do
  n=${u%.service}
  { for w in $(definition "$u" | sed -n 's/^ExecStart=[-@+!]*//p;s/^EnvironmentFile=-\{0,1\}//p'); do
      w=${w#*=}; case "$w" in /usr/*|/bin/*|*.py|*.sh|*.js) ;; /*) [ -f "$w" ] && echo "$w" ;; esac
    done; ls -1 /etc/"$n"/*.* /etc/"$n".conf /opt/"$n"/etc/* 2>/dev/null; } | awk '!seen[$0]++' | head -n 6 | while read -r f; do [ -f "$f" ] && show "$u" "$f"; done
done
for f in $(grep -hvE '^[[:space:]]*#' /etc/cron.d/* /etc/crontab 2>/dev/null | grep -oE '/[A-Za-z0-9_./-]+' | grep -vE '^/(usr|bin|dev|sbin)' | sort -u | head -n 20); do
  [ -f "$f" ] && show cron "$f"
done
for f in $(find /etc -maxdepth 3 \( -path '*alert*' -o -path '*monit*' -o -path '*check*' -o -path '*prometheus*' -o -path '*nagios*' -o -path '*watch*' \) -type f 2>/dev/null | head -n 12); do show file "$f"; done
exit 0
