# The init script of one service; several names are common. $n is empty for none.
n={{wanted}}
for s in "$n" "$n-server" "${n%-server}" "${n}ql" "${n%d}"; do
  [ -n "$n" ] && [ -x /etc/init.d/"$s" ] && printf "unit=$s\t%s\t%s\n" kind sysvinit file /etc/init.d/"$s" && break
done
exit 0
