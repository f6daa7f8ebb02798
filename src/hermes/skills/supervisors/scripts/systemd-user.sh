timeout 5 systemctl --user list-units --type=service --all --no-legend --plain 2>/dev/null | sed 's/^[^A-Za-z0-9]*//' | awk '$1~/[.]service$/ && $2=="loaded"{u=$1; sub(/[.]service$/,"",u); u="unit=" u "\t"; print u "kind\tsystemd-user"; print u "state\t" $3}' | head -n 120
exit 0
