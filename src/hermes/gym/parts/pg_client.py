"""The half of a service that speaks to PostgreSQL, over the wire and without a driver."""

PG_CLIENT = """\
import struct

class DbError(Exception):
    pass

class Session:
    def __init__(self, conf, wait=5.0):
        self.conf = conf
        self.line = socket.socket()
        self.line.settimeout(wait)
        try:
            self.line.connect((conf.get("db_host", "127.0.0.1"), int(conf["db_port"])))
        except OSError as error:
            raise DbError(f"could not connect to server: {error}")
        self.file = self.line.makefile("rb")
        pairs = {"user": conf["db_user"], "database": conf["db_name"]}
        pairs["application_name"] = conf.get("name", conf["db_user"])
        words = b"".join(f"{key}\\0{each}\\0".encode() for key, each in pairs.items())
        body = struct.pack("!i", 196608) + words + b"\\0"
        self.tell(b"", body)
        self.answer()

    def tell(self, kind, body):
        self.line.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def ask(self, sql):
        try:
            self.tell(b"Q", sql.encode() + b"\\0")
            return self.answer()
        except OSError as error:
            self.close()
            raise DbError(f"connection to server was lost: {error}")

    def close(self):
        self.file.close()
        self.line.close()

    def answer(self):
        rows, trouble = [], ""
        while True:
            head = self.file.read(5)
            if len(head) < 5:
                self.close()
                raise DbError(trouble or "server closed the connection unexpectedly")
            kind, body = head[:1], self.file.read(struct.unpack("!i", head[1:])[0] - 4)
            if kind == b"R" and body[3] == 3:
                self.tell(b"p", self.conf["db_password"].encode() + b"\\0")
            elif kind == b"D":
                rows.append(columns(body))
            elif kind == b"E":
                said = {part[:1]: part[1:].decode() for part in body.split(b"\\0")}
                trouble = f"{said[b'S']}: {said[b'M']}"
            elif kind == b"Z":
                if trouble:
                    raise DbError(trouble)
                return rows

def columns(body):
    at, found = 2, []
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return found

"""
