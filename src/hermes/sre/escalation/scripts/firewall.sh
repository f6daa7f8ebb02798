# Prints what the firewall drops at some ports. A script of its own: the programs that list its rules may not see
# other processes.
T=$(printf '\t'); export LC_ALL=C
rules=$(nft list ruleset 2>/dev/null; iptables -S 2>/dev/null)
for port in $ports; do
  printf '%s\n' "$rules" | grep -wE "dports? .*$port" | grep -iE 'drop|reject' | head -n 3 | sed "s/^[[:space:]]*/firewall=$port$T/"
done
exit 0
