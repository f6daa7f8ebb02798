# Prints the programs of supervisord with their states.
rows=$(timeout 2 supervisorctl status 2>/dev/null); code=$?
[ "$code" = 124 ] && echo "unchecked=supervisorctl gave no answer within 2 s"
printf '%s\n' "$rows" | head -n 80 | awk 'NF > 1 && $2 ~ /^[A-Z]+$/ {
  name = $1; state = $2; $1 = $2 = ""; sub(/^ +/, ""); print "supervisord=" name "\t" state "\t" $0 }'
exit 0
