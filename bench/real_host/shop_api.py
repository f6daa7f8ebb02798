"""The shop: a small HTTP API on redis and PostgreSQL, the service that users ask for."""

import json
import os
import re
import signal
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg

CONFIG = Path("/etc/shop/shop.env")
CATALOGUE = Path("/srv/shop/catalogue.json")
TIMEOUT_S = 4


def read_config() -> dict[str, str]:
    pairs = dict(re.findall(r"^(\w+)=(.*)$", CONFIG.read_text(), re.M))
    int(pairs["PORT"])
    return pairs


SETTINGS = read_config()


def ask_redis(*words: str) -> str:
    host = (SETTINGS["REDIS_HOST"], 6379)
    with socket.create_connection(host, timeout=TIMEOUT_S) as connection:
        parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        answer = connection.recv(4096).decode()
    if not answer or answer.startswith("-"):
        raise OSError(f"redis: {answer.strip() or 'no answer'}")
    return answer


def ask_postgres(query: str) -> list[tuple[object, ...]]:
    where = f"host={SETTINGS['DB_HOST']} dbname=shop user=shop password={SETTINGS['DB_PASSWORD']}"
    with psycopg.connect(where, connect_timeout=TIMEOUT_S) as connection:
        connection.execute(f"set statement_timeout = {TIMEOUT_S * 1000}")
        return connection.execute(query).fetchall()


def items() -> object:
    names = json.loads(CATALOGUE.read_text())
    return [names[str(row[0])] for row in ask_postgres("select id from items order by id")]


def cart() -> object:
    return ask_redis("INCR", "carts").strip()


def health() -> object:
    ask_redis("PING")
    ask_postgres("select 1")
    return "ok"


PAGES = {"/": lambda: "shop", "/items": items, "/cart": cart, "/health": health}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        try:
            if page and SETTINGS.get("RELEASE") == "broken" and self.path != "/":
                raise KeyError("price")
            status, body = (200, page()) if page else (404, "no such page")
        except (OSError, KeyError, ValueError, MemoryError, psycopg.Error) as error:
            status, body = 500, f"{type(error).__name__}: {error}".strip()
            print(f"{time.strftime('%F %T')} ERROR {self.path}: {body}", flush=True)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, form: str, *words: object) -> None:
        print(
            f"{self.client_address[0]} - - [{self.log_date_time_string()}] {form % words}",
            flush=True,
        )


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"{time.strftime('%F %T')} listening on {SETTINGS['PORT']}", flush=True)
    Server(("127.0.0.1", int(SETTINGS["PORT"])), Handler).serve_forever()
