"""The environment file is built at each start from the facts of the host, and a fact is gone; the
copies of the file are from before the host was moved to another region."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck

BODY = """\
conf = settings(sys.argv[1])
for name in ("APP_REGION", "APP_TENANT"):
    if name not in os.environ:
        fatal(f"variable {name} is not set")
region = os.environ["APP_REGION"]
serve(int(conf["port"]), lambda path: (200, {"region": region}))
"""
BUILD = """\
#!/bin/bash
# Runs before each start: {env} is made from the facts of this host.
sed -n 's/^\\([a-z]*\\)=\\(.*\\)/APP_\\U\\1\\E=\\2/p' {facts} > {env}
"""


def draw(site: Site) -> LookAlike:
    service, facts, env = site.service, "/etc/site/facts", f"/etc/default/{site.service}"
    region, build = f"north-{site.token}", f"/opt/{site.service}-env/build"
    copies = f"/var/backups/{service}"
    old = "APP_REGION=south-1\nAPP_TENANT=main\n"
    again = f"systemctl reset-failed {service}; systemctl restart {service} || true"
    twice = f"{build}; {again}"
    return site.look_alike(
        alert="{service} on {host} exits at start, exit code 1",
        body=BODY,
        unit_lines=f"EnvironmentFile={env}\nExecStartPre={build}",
        files=[
            HostFile(path=facts, text=f"region={region}\ntenant=main\n"),
            HostFile(path=env, text=f"APP_REGION={region}\nAPP_TENANT=main\n"),
            HostFile(path=build, text=BUILD.format(env=env, facts=facts), mode=0o755),
            HostFile(path=f"{copies}/{service}.env.2026-03-01", text=old),
            HostFile(path=f"{copies}/{service}.env.2026-04-01", text=old),
        ],
        symptoms=[HttpCheck(name="its region", port=site.layout.port, contains=region)],
        inject=[f"sed -i '/^region=/d' {facts}; {twice}"],
        fix=[f"echo region={region} >> {facts}; {twice}"],
        same=[copies, build, site.layout.conf, site.layout.program],
    )
