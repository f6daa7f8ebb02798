"""A check of the prices ended the service because its price list is cut short; started again, the
service sells at the prices of a damaged list."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck, TrafficSpec

BODY = """\
conf = settings(sys.argv[1])

def answer(page):
    rows = open(conf["prices"]).read().split()
    if not rows or rows[-1] != "end":
        with open(conf["sales"], "a") as file:
            file.write("sold at an unknown price\\n")
    return 200, {"prices": rows}

serve(int(conf["port"]), answer)
"""
CHECK = """\
#!/bin/bash
# Runs every night: a shop with half a price list must not sell.
[ "$(tail -n 1 {prices})" = end ] && exit 0
echo "$(date '+%F %T') {prices} is incomplete, {service} ends" >> /var/log/price-check.log
pkill -KILL -f -- {program}
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    prices, sales = f"{layout.data}/prices.txt", f"{layout.data}/sales.log"
    whole = f"chair=10\nlamp=12\n{site.token}=15\nend\n"
    check = CHECK.format(prices=prices, program=layout.program, service=service)
    return site.look_alike(
        alert="{service} on {host} is not running, connection refused on port {port}",
        body=BODY,
        settings={"prices": prices, "sales": sales},
        unit_lines="Restart=no",
        files=[
            HostFile(path=prices, text=whole),
            HostFile(path=f"/srv/import/{service}/prices.txt", text=whole),
            HostFile(path=sales, text=""),
            HostFile(path="/opt/price-check.sh", text=check, mode=0o755),
        ],
        symptoms=[HttpCheck(name="all prices are served", port=layout.port, contains=site.token)],
        inject=[f"printf 'chair=10\\nla' > {prices}; /opt/price-check.sh; truncate -s 0 {sales}"],
        fix=[f"cp /srv/import/{service}/prices.txt {prices}; systemctl start {service}"],
        same=[f"/srv/import/{service}", layout.program, "/opt/price-check.sh"],
        collateral=[
            ScriptCheck(name="nothing was sold at a wrong price", script=f"test ! -s {sales}")
        ],
        traffic=[TrafficSpec(port=layout.port)],
    )
