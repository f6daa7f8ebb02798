"""An nginx of a host's own, in the foreground under its supervisor."""

from hermes.core.messages import Value
from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.story import File

NEEDS = ("nginx", SEVERAL_USERS)
WORKER = 1001
"""The number of `www`, who does the work."""
_MAIN = """\
user www;
worker_processes 1;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log warn;
events {{ worker_connections 128; }}
http {{
  access_log /var/log/nginx/access.log;
  client_body_temp_path /var/lib/nginx/body;
  proxy_temp_path /var/lib/nginx/proxy;
  fastcgi_temp_path /var/lib/nginx/fastcgi;
  uwsgi_temp_path /var/lib/nginx/uwsgi;
  scgi_temp_path /var/lib/nginx/scgi;
  include {sites}/*.conf;
}}
"""
_UNIT = """\
[Unit]
Description=nginx web server

[Service]
{before}ExecStart=/usr/sbin/nginx -g "daemon off;"
ExecReload=/usr/sbin/nginx -s reload
KillSignal=SIGQUIT
TimeoutStopSec=1s
Restart=on-failure
RestartSec=200ms

[Install]
WantedBy=multi-user.target
"""


class Nginx(Value, kw_only=True, frozen=True):
    files: tuple[File, ...]
    folders: tuple[str, ...]
    unit: File


def nginx(sites: str, *site: File, before: str = "") -> Nginx:
    """`sites`: the folder whose files it includes; `before` runs ahead of each start."""
    start = _UNIT.format(before=f"ExecStartPre={before}\n" if before else "")
    return Nginx(
        files=(
            File(path="/etc/nginx/nginx.conf", text=_MAIN.format(sites=sites)),
            File(path="/var/log/nginx/access.log", owner=WORKER),
            *site,
        ),
        folders=("/var/log/nginx", "/var/lib/nginx"),
        unit=File(path="nginx.service", text=start),
    )
