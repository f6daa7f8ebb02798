"""The common half of small services: settings, a log, an answer to each request.

Written against sockets: a host with four of them is up in a few hundredths of a second, where the
web server of the standard library alone takes longer than that to import.
"""

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
import json, os, socket, sys, threading, time

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

def talk(line, answer):
    with line:
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
            text = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} -\\r\\nContent-Type: application/json\\r\\n"
            head += f"Content-Length: {len(text)}\\r\\nConnection: close\\r\\n\\r\\n"
            line.sendall(head.encode() + text)
            log("INFO" if status < 500 else "ERROR", f"GET {path} {status}")
        except (OSError, IndexError):
            return

def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        line, _ = listener.accept()
        threading.Thread(target=talk, args=(line, answer), daemon=True).start()

"""

SHELF = """\
conf = settings(sys.argv[1])
items = json.load(open(conf["data"]))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/items":
        return 200, {"items": items}
    return 404, {"error": "no such page"}

serve(int(conf["port"]), answer)
"""
"""A service that serves a list from a file and never breaks: whoever lives next door."""


def program(dice: Dice, body: str, **words: object) -> str:
    """The whole source. In it `%%name%%` stands for a value, written as Python writes it."""
    text = _COMMON + body
    for name, value in {"style": dice.pick(STYLES), **words}.items():
        text = text.replace(f"%%{name}%%", repr(value))
    if "%%" in text:
        raise ValueError(f"a word is missing: {text[text.index('%%') :][:40]}")
    return text
