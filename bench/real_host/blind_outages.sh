# Ten outages by somebody who has not seen the playbooks; the commands are theirs, unchanged.
# A line `#: PART OUTAGE` begins each part: break, fix (ends the outage) and cleanup.
#: preamble all
PGBIN=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
PGDATA=$(ls -d /var/lib/postgresql/*/main | sort -V | tail -1)
as_pg() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
sql() { psql -h /run/postgresql -U postgres -qAtX "$@"; }
sup() { [ -S /run/supervisor.sock ]; }
pg_stop() { if sup; then supervisorctl stop postgres; else as_pg $PGBIN/pg_ctl -D $PGDATA -s -m fast -w stop; fi; }
pg_start() { if sup; then supervisorctl start postgres; else as_pg $PGBIN/pg_ctl -D $PGDATA -l /var/log/postgresql/postgresql.log -s -w -t 10 start; fi; }
port_pid() { ss -ltnpH "sport = :$1" | grep -o 'pid=[0-9]*' | head -1 | cut -d= -f2; }
#: break redis-frozen
kill -STOP $(cat /run/redis/redis-server.pid)
#: fix redis-frozen
kill -CONT $(cat /run/redis/redis-server.pid)
#: break redis-volume-full
mountpoint -q /var/lib/redis || exit 1
dd if=/dev/zero of=/var/lib/redis/temp-rewriteaof-bg-41277.aof bs=64k count=512 2>/dev/null || true
chown redis /var/lib/redis/temp-rewriteaof-bg-41277.aof
head -c 65536 /dev/zero | tr '\0' x | redis-cli -x set session:big   # uses up the last page
sleep 2
#: fix redis-volume-full
redis-cli info persistence | grep -q aof_rewrite_in_progress:0 && rm /var/lib/redis/temp-rewriteaof-bg-41277.aof
for i in $(seq 10); do redis-cli del session:big | grep -q MISCONF || break; sleep 1; done
#: break pg-leaked-sessions
: > /run/nightly-report.pids
for i in $(seq 25); do   # one after the other: refused ones hold a slot for a moment
  PGAPPNAME=nightly-report setsid bash -c 'echo $$ >> /run/nightly-report.pids
    exec psql -h /run/postgresql -U shop -d shop -qX < <(echo "begin; select 1;"; exec sleep 86400)' \
    >/dev/null 2>&1 </dev/null &
  sleep 0.3
done
#: fix pg-leaked-sessions
sql -c "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'nightly-report' and state = 'idle in transaction'"
#: cleanup pg-leaked-sessions
for p in $(cat /run/nightly-report.pids); do kill -- -$p 2>/dev/null; done; rm -f /run/nightly-report.pids
#: break nginx-wrong-upstream
cp -p /etc/nginx/nginx.conf /etc/nginx/nginx.conf.bak
sed -i 's/server 127.0.0.1:8000 max_fails=0/server 127.0.0.1:8080 max_fails=0/' /etc/nginx/nginx.conf
nginx -t && nginx -s reload
#: fix nginx-wrong-upstream
cp -p /etc/nginx/nginx.conf.bak /etc/nginx/nginx.conf && nginx -t && nginx -s reload
#: break static-permissions
(umask 077; cp -r /srv/www/static /srv/www/static.new)
mv /srv/www/static /srv/www/static.old && mv /srv/www/static.new /srv/www/static
#: fix static-permissions
chmod -R u=rwX,go=rX /srv/www/static
#: cleanup static-permissions
rm -rf /srv/www/static.old
#: break pg-stale-pid-file
cp -p $PGDATA/postmaster.pid /run/postmaster.pid.copy
pg_stop
setsid bash -c 'echo $$ > /run/backup-agent.pid
  exec setpriv --reuid postgres --regid postgres --clear-groups sleep 86400' >/dev/null 2>&1 </dev/null &
sleep 1; agent=$(cat /run/backup-agent.pid)
sed "1s/.*/$agent/" /run/postmaster.pid.copy > $PGDATA/postmaster.pid
chown postgres $PGDATA/postmaster.pid; chmod 600 $PGDATA/postmaster.pid; rm /run/postmaster.pid.copy
pg_start || true
#: fix pg-stale-pid-file
p=$(head -1 $PGDATA/postmaster.pid)
tr '\0' ' ' < /proc/$p/cmdline | grep -q postgres && exit 1   # a live postmaster: hands off
[ -z "$(port_pid 5432)" ] || exit 1
rm $PGDATA/postmaster.pid && pg_start
#: cleanup pg-stale-pid-file
kill $(cat /run/backup-agent.pid) 2>/dev/null; rm -f /run/backup-agent.pid
#: break port-8000-taken
p=$(port_pid 8000); py=$(tr '\0' '\n' < /proc/$p/cmdline | head -1); echo "$py" > /run/shop-python
if sup; then supervisorctl stop shop-api; else kill -TERM $p; fi; sleep 1
mkdir -p /srv/debug
setsid "$py" -m http.server 8000 --bind 127.0.0.1 --directory /srv/debug >/dev/null 2>&1 </dev/null &
sleep 2
if sup; then supervisorctl start shop-api || true
else setsid "$py" /srv/shop/shop_api.py >> /var/log/shop/shop-api.log 2>&1 </dev/null & fi
sleep 1
#: fix port-8000-taken
p=$(port_pid 8000); tr '\0' ' ' < /proc/$p/cmdline | grep -q 'http.server 8000' || exit 1
kill $p; sleep 1
if sup; then supervisorctl start shop-api
else setsid "$(cat /run/shop-python)" /srv/shop/shop_api.py >> /var/log/shop/shop-api.log 2>&1 </dev/null & fi
sleep 1
#: cleanup port-8000-taken
rm -rf /srv/debug /run/shop-python
#: break redis-made-replica
redis-cli replicaof 127.0.0.1 6390
#: fix redis-made-replica
redis-cli replicaof no one
#: break certificate-expired
cp /srv/www/old.crt /etc/nginx/server.crt && nginx -s reload
#: fix certificate-expired
openssl req -x509 -key /etc/nginx/server.key -out /etc/nginx/server.crt -days 90 -subj /CN=localhost -addext subjectAltName=DNS:localhost
nginx -t && nginx -s reload
#: break items-page-damaged
f=$PGDATA/$(sql -d shop -c "checkpoint" -c "select pg_relation_filepath('items')")
pg_stop
mkdir -p /var/backups && cp -p $f /var/backups/items.page && echo $f > /var/backups/items.path
printf '\377%.0s' $(seq 16) | dd of=$f bs=1 seek=8 conv=notrunc 2>/dev/null
pg_start
#: fix items-page-damaged
pg_stop; cp -p /var/backups/items.page $(cat /var/backups/items.path); pg_start
#: cleanup items-page-damaged
rm -f /var/backups/items.page /var/backups/items.path
