# The ends of the logs that name who changed something. The input has a path on each line.
paths=$(cat)
echo 'hermes-log zone'; date +%z
echo 'hermes-log users'; cut -d : -f 1,3 /etc/passwd | tr : ' '
echo 'hermes-log dpkg'; tail -n 200 /var/log/dpkg.log 2> /dev/null | grep -E ' (install|upgrade|remove|purge) '
echo 'hermes-log apt'; tail -n 120 /var/log/apt/history.log 2> /dev/null
echo
echo 'hermes-log sudo'
if [ -r /var/log/auth.log ] || [ -r /var/log/secure ]; then
  grep -hs 'sudo.*COMMAND=' /var/log/auth.log /var/log/secure | tail -n 150
elif command -v journalctl > /dev/null 2>&1; then
  timeout 5 journalctl -q _COMM=sudo --since '-6 hours' -o short-iso --no-pager 2> /dev/null | grep 'COMMAND=' | tail -n 150
fi
echo 'hermes-log audit'
if [ -n "$paths" ] && [ -r /var/log/audit/audit.log ]; then
  recent=$(tail -c 2000000 /var/log/audit/audit.log | grep -E '^type=(SYSCALL|PATH)')
  serials=$(printf '%s\n' "$recent" | grep -F -- "$paths" | grep -oE 'audit\([0-9.:]+\)' | sort -u | tail -n 100)
  [ -n "$serials" ] && printf '%s\n' "$recent" | grep -F -- "$serials" | cut -c 1-600 | tail -n 200
fi
echo 'hermes-log git'
command -v git > /dev/null 2>&1 && printf '%s\n' "$paths" | head -n 50 | while IFS= read -r path; do
  folder=${path%/*}
  [ -d "$folder" ] && git -c safe.directory='*' -C "$folder" rev-parse > /dev/null 2>&1 || continue
  git -c safe.directory='*' -C "$folder" diff --quiet HEAD -- "$path" 2> /dev/null || continue
  line=$(git -c safe.directory='*' -C "$folder" log -1 --format='%ct%x09%an%x09%h %s' -- "$path" 2> /dev/null)
  [ -n "$line" ] && printf '%s\t%s\n' "$path" "$line"
done
true
