# Prints what the firewall drops at some ports, with the command that removes a rule about one port. A script of its
# own: the programs that list its rules may not see other processes.
T=$(printf '\t'); export LC_ALL=C
rules=$({ nft -a list ruleset || nft list ruleset; } 2>/dev/null | awk -v tab="$T" '
  $1 == "table" { table = $2 " " $3 } $1 == "chain" { chain = $2 }
  { rule = $0; sub(/^[ \t]*/, "", rule); command = ""
    if (match(rule, / # handle [0-9]+$/)) { command = "nft delete rule " table " " chain " handle " substr(rule, RSTART + 10); rule = substr(rule, 1, RSTART - 1) }
    if (rule !~ /dport [0-9]+ /) command = ""
    print rule " (chain " chain " of " table ")" tab command }')
# The same rules where iptables writes those of nft.
others=$(iptables -S 2>/dev/null | awk -v tab="$T" '{ command = $0; if (/dport [0-9]+ /) sub(/^-A /, "iptables -D ", command); else command = ""; print $0 tab command }')
dropped() { grep -wE "dports? .*$1" | grep -iE 'drop|reject' | head -n 3; }
for port in $ports; do
  { printf '%s\n' "$rules" | dropped "$port" | grep . || printf '%s\n' "$others" | dropped "$port"; } | sed "s/^/firewall=$port$T/"
done
exit 0
