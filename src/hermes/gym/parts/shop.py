"""A web service in plain Python that fails the way real ones do: at start, or at each request."""

from hermes.gym.parts.microweb import STYLES, filled
from hermes.gym.story import File

_BODY = """\
path = sys.argv[1]
conf = settings(path)
try:
    port, data, workers = int(conf["port"]), conf["data"], int(conf["workers"])
except KeyError as error:
    fatal(f"{path}: there is no {error}")
except ValueError as error:
    fatal(f"{path}: {error}")
if not 1 <= workers <= 64:
    fatal(f"{path}: workers must be between 1 and 64, not {workers}")
try:
    items = open(data).read().strip()
except OSError as error:
    fatal(f"cannot load {data}: {error.strerror}")
log("INFO", f"starting with {workers} workers")

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/items":
        return 200, '{"items": ' + items + "}"
    return 404, {"error": "no such page"}

serve(port, answer)
"""


def shop(name: str, port: int, items: str, *, workers: int = 4) -> tuple[list[File], File]:
    """Files of such a service, and its unit."""
    conf = f"[server]\nport = {port}\nworkers = {workers}\ndata = /srv/{name}/items.json\n"
    files = [
        File(path=f"/opt/{name}/server.py", text=filled(_BODY, style=STYLES[0])),
        File(path=f"/etc/{name}/{name}.conf", text=conf),
        File(path=f"/srv/{name}/items.json", text=items),
    ]
    return files, unit(
        name, f"/usr/bin/python3 -S -E /opt/{name}/server.py /etc/{name}/{name}.conf"
    )


def unit(name: str, command: str, *, more: str = "", after: str = "", user: str = "") -> File:
    """A unit as people write them."""
    lines = [
        "[Unit]",
        f"Description={name.capitalize()} service",
        *([f"After={after}"] if after else []),
        "",
        "[Service]",
        f"ExecStart={command}",
        *([f"User={user}"] if user else []),
        "Restart=on-failure",
        "RestartSec=200ms",
        *more.splitlines(),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return File(path=f"{name}.service", text="\n".join(lines))
