# Prints the state of one service of runit.
rows=$(timeout 2 sv status "$n" 2>/dev/null | head -n 1)
[ -n "$rows" ] && printf 'runit=%s\t%s\n' "$n" "$rows"
exit 0
