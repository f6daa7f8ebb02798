# Prints the kinds of supervisors that run on this host, apart from systemd.
running=" $(cat /proc/[0-9]*/comm 2>/dev/null | tr '\n' ' ') "
case "$running" in *' supervisord '*) echo kind=supervisord ;; esac
case "$running" in *' runsv '*) echo kind=runit ;; esac
case "$running" in *' s6-supervise '*) echo kind=s6 ;; esac
case "$running" in *' PM2 v'*) echo kind=pm2 ;; esac
[ -d /run/openrc/started ] && echo kind=openrc
[ -S "${XDG_RUNTIME_DIR:-/nowhere}/systemd/private" ] && command -v systemctl >/dev/null && echo kind=systemd-user
[ -S /run/docker.sock ] && command -v docker >/dev/null && echo kind=docker
command -v podman >/dev/null && [ "$(readlink -f "$(command -v docker)")" != "$(readlink -f "$(command -v podman)")" ] && echo kind=podman
command -v systemctl >/dev/null && echo kind=systemd
exit 0
