"""The common half of small services: settings, a log, an answer to each request.

Written against bare sockets and threads: Python's own web server, and even `json`, take longer to
import than all the rest of such a service to start, and an episode starts eight of them.
"""

import re

from hermes.gym.dice import Dice

STYLES = (
    "{time} {level:5} {text}",
    "[{time}] {level}: {text}",
    "{time} | {level:5} | {text}",
    'level={level} ts="{time}" msg="{text}"',
    "{level} {time} - {text}",
    "<{level}> {text} ({time})",
)

_COMMON = """\
import _socket, _thread, os, sys, time
%%imports%%
STYLE = %%style%%

def log(level, text):
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(STYLE.format(time=now, level=level, text=text), flush=True)

def fatal(text):
    log("FATAL", text)
    os._exit(1)

def settings(path):
    found = {}
    try:
        lines = open(path).read().splitlines()
    except OSError as error:
        fatal(f"cannot read {path}: {error.strerror}")
    for line in lines:
        at = min((line.find(sign) for sign in "=:" if sign in line), default=-1)
        if at > 0 and line[0] not in "#;[":
            found[line[:at].strip()] = line[at + 1 :].strip()
    return found

def written(body):
    if isinstance(body, dict):
        return "{" + ", ".join(f"{written(key)}: {written(body[key])}" for key in body) + "}"
    if isinstance(body, (list, tuple, set)):
        return "[" + ", ".join(map(written, body)) + "]"
    if isinstance(body, str):
        return '"' + body.replace("\\\\", "\\\\\\\\").replace('"', '\\\\"') + '"'
    return "null" if body is None else str(body).lower()

def talk(line, answer):
    line.settimeout(5)
    try:
        heard = line.recv(65536)
        while heard and not heard.endswith((b"\\r\\n\\r\\n", b"\\n\\n")):
            piece = line.recv(65536)
            if not piece:
                break
            heard += piece
        path = heard.split()[1].decode()
        status, body = answer(path)
        text = (body if isinstance(body, str) else written(body)).encode()
        head = f"HTTP/1.1 {status} -\\r\\nContent-Type: application/json\\r\\n"
        head += f"Content-Length: {len(text)}\\r\\nConnection: close\\r\\n\\r\\n"
        line.sendall(head.encode() + text)
        log("INFO" if status < 500 else "ERROR", f"GET {path} {status}")
    except (OSError, IndexError):
        return
    finally:
        line.close()

def listen(port):
    listener = _socket.socket()
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        fatal(f"cannot listen on 127.0.0.1:{port}: {error.strerror}")
    listener.listen(128)
    log("INFO", f"listening on 127.0.0.1:{port}")
    return listener

def serve(port, answer, listener=None):
    listener = listener or listen(port)
    while True:
        number, _ = listener._accept()
        _thread.start_new_thread(talk, (_socket.socket(fileno=number), answer))

"""

SHELF = """\
conf = settings(sys.argv[1])
items = open(conf["data"]).read().strip()

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/items":
        return 200, '{"items": ' + items + "}"
    return 404, {"error": "no such page"}

serve(int(conf["port"]), answer)
"""
"""A service that serves a list from a file and never breaks: whoever lives next door."""


_OTHERS = ("json", "random", "socket", "threading")
"""Modules that a body may use without saying so."""


def program(dice: Dice, body: str, **words: object) -> str:
    """The whole source. In it `%%name%%` stands for a value, written as Python writes it."""
    return filled(body, style=dice.pick(STYLES), **words)


def filled(body: str, **words: object) -> str:
    used = [name for name in _OTHERS if re.search(rf"(?<!\w){name}\.", body)]
    text = _COMMON.replace("%%imports%%", f"import {', '.join(used)}\n" if used else "") + body
    for name, value in words.items():
        text = text.replace(f"%%{name}%%", repr(value))
    if "%%" in text:
        raise ValueError(f"a word is missing: {text[text.index('%%') :][:40]}")
    return text
