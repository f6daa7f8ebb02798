"""The services of a host in containers of docker, with its network and their folders."""

import sys
from collections.abc import Iterable

from real_host.namespace import Namespace

IMAGE = "base"
FOLDERS = ("/var/lib", "/var/log", "/run", "/srv", "/dev/shm")
START_DOCKERD = f"""
mkdir -p /run/docker
setsid dockerd --host unix:///run/docker.sock --exec-root /run/docker --pidfile /run/docker.pid \\
  --data-root /opt/docker --storage-driver vfs --bridge none --iptables=false --ip6tables=false \\
  --log-level warn >> /var/log/dockerd.log 2>&1 < /dev/null &
for i in $(seq 150); do docker version > /dev/null 2>&1 && break; sleep 0.2; done
docker version > /dev/null
docker image inspect {IMAGE} > /dev/null 2>&1 && exit
image=$(mktemp -d) && cd $image && mkdir -p etc usr proc sys dev tmp var srv run root
chmod 755 . && chmod 1777 tmp
for each in /bin /sbin /lib /lib64; do [ ! -L $each ] || cp -P $each .; done
cp /etc/passwd /etc/group /etc/ld.so.cache etc
tar -c . | docker import - {IMAGE} > /dev/null
"""
SETTINGS = {"nginx": "/etc/nginx", "redis": "/etc/redis", "shop-api": "/etc/shop", "postgres": ""}
"""What each sees of /etc."""


def start_engine(host: Namespace) -> None:
    host.run(START_DOCKERD)


def create_container(host: Namespace, name: str, command: str, user: str) -> None:
    python = dict.fromkeys((sys.prefix, sys.base_prefix)) if name == "shop-api" else ()
    folders = (*FOLDERS, *filter(None, [SETTINGS[name]]))
    mounts = [f"-v {path}:{path}" for path in folders]
    mounts += [f"-v {path}:{path}:ro" for path in ("/usr", *python)]
    options = f'--network=host --user "$(id -u {user}):$(id -g {user})" {" ".join(mounts)}'
    known = f"docker container inspect {name} > /dev/null 2>&1"
    host.run(f"{known} || docker create --name {name} {options} {IMAGE} {command}")


def start_container(host: Namespace, name: str) -> str:
    script = f"docker update --restart unless-stopped {name}; docker start {name}"
    return host.run(script, check=False).stderr


def keep_stopped(host: Namespace, name: str) -> None:
    host.run(f"docker update --restart no {name}", check=False)


def container_pids(host: Namespace, name: str) -> list[int]:
    """All processes of a container, the oldest first; their numbers are those of the host."""
    done = host.run(f"docker top {name} -eo pid 2>/dev/null | tail -n +2", check=False)
    return sorted(int(each) for each in done.stdout.split() if each.isdigit())


def kill_engine(host: Namespace, services: Iterable[str]) -> None:
    """As a power cut does: dockerd first, so that it starts nothing again."""
    pids = [pid for name in services for pid in container_pids(host, name)]
    host.run("pkill -KILL -x dockerd; pkill -KILL containerd", check=False)
    if pids:
        host.run(f"kill -KILL {' '.join(map(str, pids))}", check=False)
    host.run("rm -f /run/docker.pid; rm -rf /run/docker/*", check=False)
