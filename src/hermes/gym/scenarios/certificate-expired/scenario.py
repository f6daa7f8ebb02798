"""A certificate expired although a new one was issued: the job does not install it."""

from hermes.gym.scenario_builder import (
    AUTHORITY_FILE,
    NGINX_NEEDS,
    HostFile,
    HttpCheck,
    ScenarioBuilder,
    build_scenario,
    certificates_script,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    service, other = rng.services(2)
    build.draw_neighbour(other)
    build.host, port, word = rng.host(), rng.port(), rng.token()
    domain = f"{service}.{rng.word()}.{rng.pick(('example', 'internal', 'test'))}"
    live = f"/etc/nginx/{rng.pick(('tls', 'ssl', 'certs'))}/{service}"
    pki = rng.pick(("/var/lib/pki", "/srv/pki", "/var/lib/issuer", "/srv/certs"))
    issued, archive = f"{pki}/issued/{domain}", f"{pki}/archive/{domain}"
    numbers = sorted(rng.some(range(1000, 9999), 2))
    old, new = f"{archive}/{numbers[0]}", f"{issued}/{numbers[1]}"
    conf, log = f"/etc/{rng.pick(('renew', 'certs', 'tls'))}.conf", "/var/log/renewal.log"
    tool, days = f"/opt/{rng.pick(('pki', 'renewal', 'tls'))}/renew", rng.number(10, 30)
    elsewhere = rng.pick((f"{pki}/outbox/{domain}", f"/mnt/pki/{domain}", f"{issued}.new"))
    key, wrong = rng.pick((("source", elsewhere), ("enabled", rng.pick(("no", "off", "false")))))
    facts = {"days": days, "conf": conf, "domain": domain, "log": log, "live": live}
    renew = build.source("renew.sh.in").format(
        **facts,
        skipped=build.wording("skipped"),
        nothing=build.wording("nothing", source="$source"),
    )
    pairs = certificates_script(rng, domain, live, old=old, new=new)
    sites = rng.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled"))
    site = build.source("site.conf.in").format(port=port, domain=domain, live=live, word=word)
    build.nginx(
        sites,
        HostFile(path=f"{sites}/{service}.conf", text=site),
        HostFile(path="/run/first-pairs", text=pairs),
        HostFile(path=conf, text=f"# renewal of {domain}\nsource={issued}\nenabled=yes\n"),
        HostFile(path=tool, text=renew, mode=0o755),
        HostFile(path="/etc/cron.d/renewal", text=f"41 2 * * * root {tool}\n"),
        before="-/bin/bash /run/first-pairs",
    )

    def install(pair: str) -> str:
        return f"cp {pair}/fullchain.pem {live}.crt; cp {pair}/privkey.pem {live}.key"

    run_out = f"{install(old)}; nginx -s reload; sleep 0.1"
    put = "sed -i 's|^{0}=.*|{0}={1}|' " + conf
    right = put.format(key, {"source": issued, "enabled": "yes"}[key])
    build.alert("P1", service=service, port=port, domain=domain)
    build.symptoms(
        HttpCheck(
            name="the page is there over TLS",
            port=port,
            contains=word,
            tls=domain,
            authority=AUTHORITY_FILE,
        )
    )
    build.inject(
        build.changes(build.wording("told", domain=domain)),
        f"{put.format(key, wrong)}; {run_out}; {tool}; true",
    )
    build.trigger(script=run_out)
    build.trigger(cron=tool, pause=0.1)
    build.collateral(
        ("the authority", AUTHORITY_FILE),
        ("what was issued", pki),
        ("the tool", tool),
        ("the site", f"{sites}/{service}.conf"),
    )
    build.fault(
        component=(f"{live}.crt", conf, "certificate"),
        mechanism="expired, expiry, renewal, not renewed, not installed",
        value=(key, f"{key}={wrong}", *([wrong] if wrong == elsewhere else [])),
    )
    build.responses(
        reference=(right, tool),
        relief=f"{install(new)}; systemctl reload nginx",
        shortcut=(
            f"openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN={domain} "
            f"-addext subjectAltName=DNS:{domain} -keyout {live}.key -out {live}.crt",
            f"cat {live}.crt >> {AUTHORITY_FILE}; {right}; systemctl reload nginx",
        ),
    )


SCENARIO = build_scenario(
    __file__,
    draw,
    "network",
    "a TLS certificate ran out; its renewal is kept from installing the new one",
    needs=(*NGINX_NEEDS, "openssl"),
)
