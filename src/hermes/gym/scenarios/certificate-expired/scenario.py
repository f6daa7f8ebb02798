"""A certificate expired although a new one was issued: the job does not install it."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    UnchangedCheck,
)
from hermes.gym.services.nginx import AUTHORITY_FILE, NGINX_NEEDS, certificates_script, nginx_server
from hermes.gym.services.python_service import change_log_script, draw_alert, draw_neighbour

TEXTS = texts(__file__)

RENEW_SCRIPT = """\
#!/bin/bash
# Installs the newest issued pair when the live one runs out within {days} days.
enabled=yes
. {conf}
say() {{ echo "$(date '+%F %T') {domain}: $1" >> {log}; }}
[ "$enabled" = yes ] || {{ say "{skipped}"; exit 0; }}
openssl x509 -noout -checkend $((86400 * {days})) -in {live}.crt > /dev/null && exit 0
newest=$(ls -d "$source"/*/ 2>/dev/null | sort | tail -1)
[ -n "$newest" ] || {{ say "{nothing}"; exit 1; }}
cp "$newest/fullchain.pem" {live}.crt && cp "$newest/privkey.pem" {live}.key
nginx -s reload && say "installed $newest"
"""
SITE_CONF = """\
server {{
  listen 127.0.0.1:{port} ssl;
  server_name {domain};
  ssl_certificate {live}.crt;
  ssl_certificate_key {live}.key;
  location / {{ default_type application/json; return 200 '{{"shop": "{word}"}}'; }}
}}
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    neighbour, host, port, word = draw_neighbour(rng, other), rng.host(), rng.port(), rng.token()
    domain = f"{service}.{rng.word()}.{rng.pick(('example', 'internal', 'test'))}"
    live = f"/etc/nginx/{rng.pick(('tls', 'ssl', 'certs'))}/{service}"
    pki = rng.pick(("/var/lib/pki", "/srv/pki", "/var/lib/issuer", "/srv/certs"))
    issued, archive = f"{pki}/issued/{domain}", f"{pki}/archive/{domain}"
    numbers = sorted(rng.some(range(1000, 9999), 2))
    conf, log = f"/etc/{rng.pick(('renew', 'certs', 'tls'))}.conf", "/var/log/renewal.log"
    tool, days = f"/opt/{rng.pick(('pki', 'renewal', 'tls'))}/renew", rng.number(10, 30)
    elsewhere = rng.pick((f"{pki}/outbox/{domain}", f"/mnt/pki/{domain}", f"{issued}.new"))
    wrong = rng.pick((("source", elsewhere), ("enabled", rng.pick(("no", "off", "false")))))
    renew = RENEW_SCRIPT.format(
        days=days,
        conf=conf,
        domain=domain,
        log=log,
        live=live,
        skipped=rng.wording(TEXTS["skipped"]),
        nothing=rng.wording(TEXTS["nothing"]).format(source="$source"),
    )
    right = {"source": issued, "enabled": "yes"}
    lines = "".join(f"{key}={value}\n" for key, value in right.items())
    pairs = certificates_script(
        rng, domain, live, old=f"{archive}/{numbers[0]}", new=f"{issued}/{numbers[1]}"
    )
    sites = rng.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled"))
    site = SITE_CONF.format(port=port, domain=domain, live=live, word=word)
    web = nginx_server(
        sites,
        HostFile(path=f"{sites}/{service}.conf", text=site),
        HostFile(path="/run/first-pairs", text=pairs),
        HostFile(path=conf, text=f"# renewal of {domain}\n{lines}"),
        HostFile(path=tool, text=renew, mode=0o755),
        HostFile(path="/etc/cron.d/renewal", text=f"41 2 * * * root {tool}\n"),
        before="-/bin/bash /run/first-pairs",
    )
    safe = HttpCheck(
        name="the page is there over TLS",
        port=port,
        contains=word,
        tls=domain,
        authority=AUTHORITY_FILE,
    )
    run_out = (
        f"cp {archive}/{numbers[0]}/fullchain.pem {live}.crt; "
        f"cp {archive}/{numbers[0]}/privkey.pem {live}.key; nginx -s reload; sleep 0.1"
    )
    put = "sed -i 's|^{0}=.*|{0}={1}|' " + conf
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=(*web.files, *neighbour.files),
                folders=web.folders,
                units=(web.unit, neighbour.unit),
            ),
        ),
        alert=draw_alert(
            rng, TEXTS["alerts"], "P1", service=service, host=host, port=port, domain=domain
        ),
        healthy=(safe, neighbour.answers),
        symptoms=(safe,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(domain=domain)),
            f"{put.format(*wrong)}; {run_out}; {tool}; true",
        ),
        cure=(FaultTrigger(script=run_out), FaultTrigger(cron=tool, pause=0.1)),
        collateral=(
            *neighbour.unharmed,
            UnchangedCheck(name="the authority", path=AUTHORITY_FILE),
            UnchangedCheck(name="what was issued", path=pki),
            UnchangedCheck(name="the tool", path=tool),
            UnchangedCheck(name="the site", path=f"{sites}/{service}.conf"),
        ),
        fault=FaultDescription(
            component=(f"{live}.crt", conf, "certificate"),
            mechanism=("expired", "expiry", "renewal", "not renewed", "not installed"),
            value=(wrong[0], "=".join(wrong), *(each for each in wrong if each == elsewhere)),
        ),
        reference=(put.format(wrong[0], right[wrong[0]]), tool),
        relief=(
            f"cp {issued}/{numbers[1]}/fullchain.pem {live}.crt; "
            f"cp {issued}/{numbers[1]}/privkey.pem {live}.key; systemctl reload nginx",
        ),
        shortcut=(
            f"openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN={domain} "
            f"-addext subjectAltName=DNS:{domain} -keyout {live}.key -out {live}.crt",
            f"cat {live}.crt >> {AUTHORITY_FILE}; {put.format(wrong[0], right[wrong[0]])}; "
            "systemctl reload nginx",
        ),
    )


SCENARIO = Scenario(
    name="certificate-expired",
    group="network",
    summary="a TLS certificate ran out; its renewal is kept from installing the new one",
    draw=draw,
    needs=(*NGINX_NEEDS, "openssl"),
)
