# The rules of the packet filter that are in force, without counters and elements of sets. Reads only.
PATH=$PATH:/usr/sbin:/sbin
command -v nft > /dev/null 2>&1 || { echo 'left-out nft is not installed'; exit 0; }
rules=$(timeout -s KILL 2 nft -s -t -a list ruleset 2> /dev/null < /dev/null)
case $? in
  0) printf 'rules\n%s\n' "$rules" ;;
  137) echo 'left-out nft did not answer within 2 s' ;;
  *) echo 'left-out nft did not list its rules; that needs root' ;;
esac
