# The effective settings of running redis and PostgreSQL servers. Reads only; slow ones are skipped.
if command -v redis-cli > /dev/null 2>&1; then
  for port in $(ps -eo args 2> /dev/null | sed -n 's/^[^ ]*redis-server .*:\([0-9][0-9]*\).*/\1/p' | sort -u); do
    echo "hermes-settings redis/$port"
    timeout 2 redis-cli -p "$port" CONFIG GET '*' 2> /dev/null
  done
fi
if command -v psql > /dev/null 2>&1; then
  for socket in /run/postgresql/.s.PGSQL.*; do
    [ -S "$socket" ] || continue
    port=${socket##*.}
    as=''
    [ "$(id -u)" = 0 ] && as='runuser -u postgres --'
    echo "hermes-settings postgresql/$port"
    timeout 3 $as psql -XAtqw -h /run/postgresql -p "$port" -d postgres -F '
' -c "select name, setting from pg_settings where source not in ('default', 'client', 'override', 'session') and context <> 'internal' order by name" 2> /dev/null
  done
fi
