"""Every order is right; the table of exchange rates lost a line that one of them needs."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
rates = dict(line.split() for line in open(conf["rates"]) if line.strip())
total = 0
for name in sorted(os.listdir(conf["queue"])):
    log("INFO", f"taking {name}")
    order = json.load(open(os.path.join(conf["queue"], name)))
    try:
        total += order["sum"] * int(rates[order["currency"]])
    except KeyError as error:
        fatal(f"cannot handle {name}: KeyError: {error}")

def answer(path):
    return 200, {"booked": total}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    queue, rates = f"{site.layout.data}/queue", f"/etc/{site.service}-rates/rates.tsv"
    sums = [site.rng.number(10, 900) for _ in range(7)]
    currency = ["EUR", "USD", "EUR", "CHF", "EUR", "USD", "EUR"]
    table = {"EUR": 100, "USD": 93, "CHF": 104}
    orders = [
        HostFile(path=f"{queue}/order-{n:03d}.json", text=f'{{"currency": "{c}", "sum": {s}}}\n')
        for n, (c, s) in enumerate(zip(currency, sums, strict=True))
    ]
    text = "".join(f"{name}\t{rate}\n" for name, rate in table.items())
    booked = sum(s * table[c] for c, s in zip(currency, sums, strict=True))
    restart = f"systemctl reset-failed {site.service}; systemctl restart {site.service}"
    return site.look_alike(
        alert="{service} on {host} ends at every start, the queue is not worked off",
        body=BODY,
        settings={"queue": queue, "rates": rates},
        files=[*orders, HostFile(path=rates, text=text)],
        symptoms=[
            HttpCheck(
                name="all orders are booked", port=site.layout.port, contains=f'"booked": {booked}'
            )
        ],
        inject=[f"sed -i '/^CHF/d' {rates}; systemctl restart {site.service} || true"],
        fix=[f"printf 'CHF\\t104\\n' >> {rates}; {restart}"],
        same=[queue, site.layout.conf, site.layout.program],
    )
