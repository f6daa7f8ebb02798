"""Ways to break a host: what an outage is, and the general ones that fit several services."""

from collections.abc import Callable
from dataclasses import dataclass

from real_host.namespace import Namespace
from real_host.services import Services
from real_host.watch import Watch

BLOCKER = (
    "import socket,time\n"
    "while 1:\n"
    "  try: s=socket.create_server(('127.0.0.1', {port})); time.sleep(3600)\n"
    "  except OSError: time.sleep(0.1)"
)

# What counts as the name of a service in a notification. The second is weaker: it points at the
# service for one who knows the host, and counts as detected but not as reported by name.
NAMES = {
    "nginx": (r"\bnginx\b", r"\bnginx\b|:80\b|:443\b"),
    "redis": (r"\bredis\b|redis-server", r"redis|:6379\b"),
    "postgres": (r"\bpostgres", r"postgres|:5432\b"),
    "shop-api": (r"\bshop[-_]api\b", r"\bshop[-_]api\b|\bpython\b|\b8000\b"),
    "home": (r"/var/lib/hermes|disk-var-lib-hermes|home (?:folder|directory|disk)", r"journal"),
}

# Which checks of the bench fail when a service does: pages of the shop come through nginx.
FAILS_WITH = {
    "nginx": ("nginx", "tls", "items", "cart"),
    "shop-api": ("shop-api", "items", "cart"),
    "redis": ("redis", "shop-api", "cart"),
    "postgres": ("postgres", "shop-api", "items"),
}


@dataclass
class Stage:
    """What an outage is caused on: a host, its services, and the watch there."""

    host: Namespace
    services: Services
    watch: Watch

    def sh(self, script: str) -> None:
        self.host.run(script)

    def background(self, name: str, command: str) -> None:
        """A process of the host that lives until `end_background`."""
        self.sh(
            f"mkdir -p /run/bench; setsid {command} >/dev/null 2>&1 </dev/null & "
            f"echo $! > /run/bench/{name}"
        )

    def end_background(self, name: str) -> None:
        self.sh(
            f"kill -KILL -- -$(cat /run/bench/{name}) $(cat /run/bench/{name}); "
            f"rm /run/bench/{name}; true"
        )

    def python(self, name: str, code: str) -> None:
        self.host.path(f"/tmp/{name}.py").write_text(code)
        self.background(name, f"{self.services.python} /tmp/{name}.py")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.host.path(path)
        text = file.read_text()
        if old not in text:
            raise LookupError(f"{path} does not contain {old!r}")
        file.write_text(text.replace(old, new))


@dataclass(frozen=True)
class Outage:
    """One way to break a host. `services`: a notification that names any of them is right."""

    name: str
    kind: str
    services: tuple[str, ...]
    checks: tuple[str, ...]
    cause: Callable[[Stage], None]
    end: Callable[[Stage], None]
    author: str = ""
    """`blind`: somebody who has not seen the playbooks; counted apart."""


def stopped(service: str, *checks: str) -> Outage:
    return Outage(
        f"{service}-stopped",
        "stopped",
        (service,),
        checks or (service,),
        lambda s: s.services.stop(service),
        lambda s: s.services.start(service),
    )


def killed_in_a_loop(service: str) -> Outage:
    def cause(s: Stage) -> None:
        # A bracket, so that the loop does not find and end itself.
        pattern = {"redis": "[r]edis-server", "shop-api": "[s]hop_api.py"}[service]
        s.background("loop", f"bash -c 'while sleep 0.4; do pkill -9 -f {pattern}; done'")

    def end(s: Stage) -> None:
        s.end_background("loop")
        s.services.start(service)

    return Outage(
        f"{service}-killed-in-a-loop", "killed in a loop", (service,), (service,), cause, end
    )


def bad_config(service: str, path: str, old: str, new: str) -> Outage:
    """A mistake in a configuration file that shows when the service is restarted."""

    def cause(s: Stage) -> None:
        s.edit(path, old, new)
        s.services.stop(service)
        s.services.start(service, check=False)

    def end(s: Stage) -> None:
        s.edit(path, new, old)
        s.services.stop(service)
        s.services.start(service)

    return Outage(f"{service}-bad-config", "bad config", (service,), (service,), cause, end)


def port_taken(service: str, port: int) -> Outage:
    def cause(s: Stage) -> None:
        s.services.stop(service)
        s.python("blocker", BLOCKER.format(port=port))
        s.services.start(service, check=False)

    def end(s: Stage) -> None:
        s.end_background("blocker")
        s.services.stop(service)
        s.services.start(service)

    return Outage(f"{service}-port-taken", "port taken", (service,), (service,), cause, end)


def hang(service: str) -> Outage:
    return Outage(
        f"{service}-hangs",
        "hang",
        (service,),
        (service,),
        lambda s: s.services.kill(service, "STOP"),
        lambda s: s.services.kill(service, "CONT"),
    )


def disk_full(service: str, path: str) -> Outage:
    def end(s: Stage) -> None:
        s.sh(f"rm {path}/core.4711")
        s.services.start(service)

    return Outage(
        f"{service}-disk-full",
        "disk full",
        (service,),
        (f"disk:{path}",),
        lambda s: s.sh(f"cat /dev/zero > {path}/core.4711 2>/dev/null; true"),
        end,
    )


def firewalled(service: str, port: int) -> Outage:
    rule = f"nft add rule inet bench input tcp dport {port} drop"
    chain = "'{ type filter hook input priority 0; }'"
    return Outage(
        f"{service}-firewalled",
        "firewall",
        (service,),
        (service,),
        lambda s: s.sh(
            f"nft add table inet bench && nft add chain inet bench input {chain} && {rule}"
        ),
        lambda s: s.sh("nft delete table inet bench"),
    )


def limited(name: str, limit: str, lift: str) -> Outage:
    """The shop runs into a limit of the kernel; a person restarts it without the limit."""

    def cause(s: Stage) -> None:
        for pid in s.services.pids("shop-api"):
            s.sh(f"prlimit --pid {pid} {limit}")

    return Outage(
        f"shop-api-{name}",
        f"{lift} limit",
        ("shop-api",),
        ("shop-api",),
        cause,
        lambda s: s.services.restart("shop-api"),
    )


def reboot_without(service: str, *checks: str) -> Outage:
    """A power cut; everything comes back, the watch too, but for one service."""

    def cause(s: Stage) -> None:
        s.watch.kill(restart=False)
        s.services.stop_all()
        s.services.start_all(leave_out=(service,))
        s.watch.start()

    return Outage(
        f"reboot-without-{service}",
        "reboot",
        (service,),
        checks,
        cause,
        lambda s: s.services.start(service),
    )


def shell(
    name: str, kind: str, services: tuple[str, ...], checks: tuple[str, ...], cause: str, end: str
) -> Outage:
    return Outage(name, kind, services, checks, lambda s: s.sh(cause), lambda s: s.sh(end))
