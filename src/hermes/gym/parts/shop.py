"""A web service in plain Python that fails the way real ones do: at start, or at each request."""

from hermes.gym.story import File

SOURCE = """\
import configparser, http.server, json, os, sys, time

def log(level, text):
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level:5} {text}", flush=True)

def settings(path):
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path) as file:
            parser.read_file(file)
    except (OSError, configparser.Error) as error:
        log("FATAL", f"cannot read {path}: {error}")
        sys.exit(1)
    return parser

path = sys.argv[1]
conf = settings(path)
try:
    port = conf.getint("server", "port")
    data = conf.get("server", "data")
    workers = conf.getint("server", "workers")
except (configparser.Error, ValueError) as error:
    log("FATAL", f"{path}: {error}")
    sys.exit(1)
if not 1 <= workers <= 64:
    log("FATAL", f"{path}: workers must be between 1 and 64, not {workers}")
    sys.exit(1)
try:
    items = json.load(open(data))
except (OSError, ValueError) as error:
    log("FATAL", f"cannot load {data}: {error}")
    sys.exit(1)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            status, body = 200, {"status": "ok"}
        elif self.path == "/items":
            status, body = 200, {"items": items}
        else:
            status, body = 404, {"error": "no such page"}
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, format, *args):
        log("INFO", f"{self.client_address[0]} {format % args}")

log("INFO", f"listening on 127.0.0.1:{port} with {workers} workers")
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def shop(name: str, port: int, items: str, *, workers: int = 4) -> tuple[list[File], File]:
    """Files of such a service, and its unit."""
    conf = f"[server]\nport = {port}\nworkers = {workers}\ndata = /srv/{name}/items.json\n"
    files = [
        File(path=f"/opt/{name}/server.py", text=SOURCE),
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
