"""An nginx server for scenarios, and a script that creates its certificates."""

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import SEVERAL_USERS
from hermes.gym.scenario_spec import HostFile

NGINX_NEEDS = ("nginx", SEVERAL_USERS)
NGINX_WORKER_UID = 1001
"""The id of `www`, the user of the workers."""
_NGINX_CONF = """\
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
_NGINX_UNIT = """\
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


class NginxServer(Value, kw_only=True, frozen=True):
    files: tuple[HostFile, ...]
    folders: tuple[str, ...]
    unit: HostFile


def nginx_server(sites: str, *site: HostFile, before: str = "") -> NginxServer:
    """`sites`: the folder whose files it includes; `before` runs before each start."""
    start = _NGINX_UNIT.format(before=f"ExecStartPre={before}\n" if before else "")
    return NginxServer(
        files=(
            HostFile(path="/etc/nginx/nginx.conf", text=_NGINX_CONF.format(sites=sites)),
            HostFile(path="/var/log/nginx/access.log", owner=NGINX_WORKER_UID),
            *site,
        ),
        folders=("/var/log/nginx", "/var/lib/nginx"),
        unit=HostFile(path="nginx.service", text=start),
    )


AUTHORITY_FILE = "/etc/pki/authority.pem"
_CERTIFICATES_SCRIPT = """\
set -e
work=$(mktemp -d)
cd $work
touch index.txt
cat > own.cnf <<END
[req]
distinguished_name = dn
prompt = no
x509_extensions = authority
[dn]
CN = {authority} root
[authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[leaf]
subjectAltName = DNS:{domain}
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = leaf
unique_subject = no
[any]
commonName = supplied
END
mkdir -p $(dirname {file}) $(dirname {live})
curve="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config own.cnf"
openssl req -x509 $curve -days 4000 -keyout ca.key -out {file}
issue() {{
  mkdir -p $1
  openssl req $curve -subj /CN={domain} -keyout $1/privkey.pem -out request
  openssl ca -batch -notext -config own.cnf -keyfile ca.key -cert {file} -in request \\
    -out $1/fullchain.pem -startdate $(date -u -d "$2" +%Y%m%d%H%M%SZ) \\
    -enddate $(date -u -d "$3" +%Y%m%d%H%M%SZ)
}}
issue {old} '-{age} days' '-{over} minutes'
issue {new} '-{fresh} days' '+{left} days'
cp {new}/fullchain.pem {live}.crt
cp {new}/privkey.pem {live}.key
cd /
rm -rf $work /run/first-pairs
"""


def certificates_script(rng: RandomSource, domain: str, live: str, *, old: str, new: str) -> str:
    """A script for `/run/first-pairs` that creates an expired and a valid certificate with keys."""
    return _CERTIFICATES_SCRIPT.format(
        authority=rng.word(),
        domain=domain,
        file=AUTHORITY_FILE,
        live=live,
        old=old,
        new=new,
        age=rng.pick((90, 180, 365)),
        over=rng.number(4, 50),
        fresh=rng.number(3, 12),
        left=rng.pick((80, 170, 355)),
    )
