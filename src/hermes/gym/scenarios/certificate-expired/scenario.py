"""A certificate ran out although its successor was issued: the job that installs it looks away."""

from hermes.gym.dice import Dice
from hermes.gym.parts.nginx import NEEDS, nginx
from hermes.gym.parts.pki import AUTHORITY, first_pairs
from hermes.gym.parts.premises import alert, changes, neighbour
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Same, Story, Trigger

TEXTS = texts(__file__)

RENEW = """\
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
SITE = """\
server {{
  listen 127.0.0.1:{port} ssl;
  server_name {domain};
  ssl_certificate {live}.crt;
  ssl_certificate_key {live}.key;
  location / {{ default_type application/json; return 200 '{{"shop": "{word}"}}'; }}
}}
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    beside, host, port, word = neighbour(dice, other), dice.host(), dice.port(), dice.token()
    domain = f"{service}.{dice.word()}.{dice.pick(('example', 'internal', 'test'))}"
    live = f"/etc/nginx/{dice.pick(('tls', 'ssl', 'certs'))}/{service}"
    pki = dice.pick(("/var/lib/pki", "/srv/pki", "/var/lib/issuer", "/srv/certs"))
    issued, archive = f"{pki}/issued/{domain}", f"{pki}/archive/{domain}"
    numbers = sorted(dice.some(range(1000, 9999), 2))
    conf, log = f"/etc/{dice.pick(('renew', 'certs', 'tls'))}.conf", "/var/log/renewal.log"
    tool, days = f"/opt/{dice.pick(('pki', 'renewal', 'tls'))}/renew", dice.number(10, 30)
    elsewhere = dice.pick((f"{pki}/outbox/{domain}", f"/mnt/pki/{domain}", f"{issued}.new"))
    wrong = dice.pick((("source", elsewhere), ("enabled", dice.pick(("no", "off", "false")))))
    renew = RENEW.format(
        days=days,
        conf=conf,
        domain=domain,
        log=log,
        live=live,
        skipped=dice.wording(TEXTS["skipped"]),
        nothing=dice.wording(TEXTS["nothing"]).format(source="$source"),
    )
    right = {"source": issued, "enabled": "yes"}
    lines = "".join(f"{key}={value}\n" for key, value in right.items())
    pairs = first_pairs(
        dice, domain, live, old=f"{archive}/{numbers[0]}", new=f"{issued}/{numbers[1]}"
    )
    sites = dice.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled"))
    site = SITE.format(port=port, domain=domain, live=live, word=word)
    web = nginx(
        sites,
        File(path=f"{sites}/{service}.conf", text=site),
        File(path="/run/first-pairs", text=pairs),
        File(path=conf, text=f"# renewal of {domain}\n{lines}"),
        File(path=tool, text=renew, mode=0o755),
        File(path="/etc/cron.d/renewal", text=f"41 2 * * * root {tool}\n"),
        before="-/bin/bash /run/first-pairs",
    )
    safe = Http(
        name="the page is there over TLS",
        port=port,
        contains=word,
        tls=domain,
        authority=AUTHORITY,
    )
    run_out = (
        f"cp {archive}/{numbers[0]}/fullchain.pem {live}.crt; "
        f"cp {archive}/{numbers[0]}/privkey.pem {live}.key; nginx -s reload; sleep 0.1"
    )
    put = "sed -i 's|^{0}=.*|{0}={1}|' " + conf
    return Story(
        hosts=(
            Host(
                name=host,
                files=(*web.files, *beside.files),
                folders=web.folders,
                units=(web.unit, beside.unit),
            ),
        ),
        alert=alert(
            dice, TEXTS["alerts"], "P1", service=service, host=host, port=port, domain=domain
        ),
        healthy=(safe, beside.answers),
        symptoms=(safe,),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(domain=domain)),
            f"{put.format(*wrong)}; {run_out}; {tool}; true",
        ),
        cure=(Trigger(script=run_out), Trigger(cron=tool, pause=0.1)),
        collateral=(
            *beside.unharmed,
            Same(name="the authority", path=AUTHORITY),
            Same(name="what was issued", path=pki),
            Same(name="the tool", path=tool),
            Same(name="the site", path=f"{sites}/{service}.conf"),
        ),
        fault=Fault(
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
            f"cat {live}.crt >> {AUTHORITY}; {put.format(wrong[0], right[wrong[0]])}; "
            "systemctl reload nginx",
        ),
    )


SCENARIO = Scenario(
    name="certificate-expired",
    group="network",
    summary="a TLS certificate ran out; its renewal is kept from installing the new one",
    draw=draw,
    needs=(*NEEDS, "openssl"),
)
