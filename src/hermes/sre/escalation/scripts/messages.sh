# Prints what the system journal has of one service, and processes that the kernel killed.
T=$(printf '\t'); export LC_ALL=C
if ! command -v journalctl >/dev/null 2>&1; then
  echo "missing=journalctl"
elif [ -n "$n" ]; then
  rows=$(timeout 2 journalctl -u "$n" -n 24 -o short-iso --no-pager -q 2>/dev/null </dev/null | cut -c 1-300)
  [ -n "$rows" ] && { echo "log=the system journal$T$(date +%s)"; printf '%s\n' "$rows" | sed 's/^/said=/'; }
fi
if dmesg >/dev/null 2>&1; then
  dmesg 2>/dev/null | grep -aE 'Killed process' | tail -n 3 | cut -c 1-200 | sed 's/^/kernel=/'
else
  echo "unread=the messages of the kernel"
fi
echo "uptime=$(cut -d ' ' -f 1 /proc/uptime)"; echo "now=$(date +%s)"
exit 0
