"""Says whether a host works: looks at behaviour, from where the agent cannot reach."""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence

import anyio

from hermes.core.messages import Value
from hermes.gym.box.box import Box
from hermes.gym.story import Check, Http, Port, Running, Same, Script, Space, Trigger


class Found(Value, kw_only=True, frozen=True):
    check: str
    ok: bool
    detail: str = ""


class Oracle:
    def __init__(self, box: Box) -> None:
        self._box = box
        self._before: dict[tuple[int, str], str] = {}
        self._pids: dict[tuple[int, str], object] = {}

    async def remember(self, checks: Iterable[Check]) -> None:
        """Note how things are before the fault, for `Same`."""
        for check in checks:
            if isinstance(check, Same):
                self._before[check.host, check.path] = await self._state(check)
            if isinstance(check, Running):
                said = (await self._box.tell("show", check.unit, host=check.host))["said"]
                self._pids[check.host, check.unit] = said.get("pid")

    async def look(self, checks: Sequence[Check]) -> list[Found]:
        """All at once, as users would."""
        found: list[Found | None] = [None] * len(checks)

        async def one(place: int, check: Check) -> None:
            ok, detail = await self._check(check)
            found[place] = Found(check=check.name, ok=ok, detail=detail)

        async with anyio.create_task_group() as group:
            for place, check in enumerate(checks):
                group.start_soon(one, place, check)
        return [each for each in found if each is not None]

    async def until(
        self, checks: Sequence[Check], *, ok: bool, seconds: float, every: float = 0.05
    ) -> list[Found]:
        """Look until all hold (or, with `ok` false, until each has failed), or time is up."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.look(checks)
            if all(each.ok == ok for each in found) or time.monotonic() >= deadline:
                return found
            await anyio.sleep(every)
            every = min(every * 1.3, 0.3)  # what takes long is not asked for all the time

    async def held(self, checks: Sequence[Check], *, window: float) -> list[Found]:
        """All hold now and for the whole window; else how they were when one did not."""
        deadline = time.monotonic() + window
        while True:
            found = await self.look(checks)
            left = deadline - time.monotonic()
            if left <= 0 or not all(each.ok for each in found):
                return found
            await anyio.sleep(min(left, 1.0))

    async def set_off(self, trigger: Trigger) -> None:
        for unit in trigger.restart:
            await self._box.tell("restart", unit, host=trigger.host)
        if trigger.cron:
            await self._box.tell("cron", trigger.cron, host=trigger.host)
        if trigger.script:
            await self._box.run(trigger.script, host=trigger.host)
        if trigger.pause:
            await anyio.sleep(trigger.pause)

    async def _check(self, check: Check) -> tuple[bool, str]:
        if isinstance(check, Http):
            return await self._http(check)
        if isinstance(check, Port):
            return await self._port(check)
        if isinstance(check, Space):
            found = await self._box.space(check.path, host=check.host)
            free = found.get("free", 0) / (1 << 20)
            return free >= check.free_mb, f"{free:.1f} MB free"
        if isinstance(check, Running):
            return await self._running(check)
        if isinstance(check, Script):
            ran = await self._box.run(check.script, host=check.host, timeout=check.timeout)
            ok = ran.code == 0 and check.contains in ran.output
            ok = ok and not (check.lacks and check.lacks in ran.output)
            return ok, f"exit code {ran.code}: {ran.output.strip()[-300:]}"
        return await self._same(check)

    async def _running(self, check: Running) -> tuple[bool, str]:
        said = (await self._box.tell("show", check.unit, host=check.host))["said"]
        age = time.time() - float(said.get("since", time.time()))
        ok = said.get("state") == "active" and age >= check.seconds
        detail = f"{said.get('state', 'missing')} for {age:.1f} s"
        before = self._pids.get((check.host, check.unit), said.get("pid"))
        if ok and check.undisturbed and said.get("pid") != before:
            return False, f"{detail}, but it was restarted"
        return ok, detail

    async def _http(self, check: Http) -> tuple[bool, str]:
        name = check.tls or "localhost"
        request = f"GET {check.path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        question = {
            "port": check.port,
            "address": check.address,
            "send": request.encode(),
            "timeout": check.within,
        }
        if check.tls:
            given = (
                await self._box.read(check.authority, host=check.host) if check.authority else b""
            )
            question |= {"tls": True, "name": name, "authority": (given or b"").decode()}
        said = await self._box.ask(question, host=check.host)
        if "error" in said:
            return False, str(said["error"])
        head, _, body = bytes(said["heard"]).partition(b"\r\n\r\n")
        status = int(head.split()[1]) if len(head.split()) > 1 and head.split()[1].isdigit() else 0
        ok = status == check.status and check.contains.encode() in body
        return ok, f"{status} {body[:120].decode('utf-8', 'replace')!r}"

    async def _port(self, check: Port) -> tuple[bool, str]:
        question = {"port": check.port, "timeout": check.within, "send": check.send.encode()}
        if check.contains:
            question["until"] = check.contains.encode()
        said = await self._box.ask(question, host=check.host)
        if "error" in said:
            return False, str(said["error"])
        heard = bytes(said["heard"])
        return check.contains.encode() in heard, heard[:120].decode("utf-8", "replace")

    async def _same(self, check: Same) -> tuple[bool, str]:
        before, now = self._before.get((check.host, check.path), ""), await self._state(check)
        ok = _grew(before, now) if check.may_grow else before == now
        return ok, "as it was" if ok else f"{check.path} is not as it was"

    async def _state(self, check: Same) -> str:
        if check.may_grow:
            content = await self._box.read(check.path, host=check.host)
            if content is None:
                return ""
            return json.dumps([len(content), content.decode("latin-1")])
        digest = hashlib.sha256()
        for path, mode, owner, content in await self._box.tree(check.path, host=check.host):
            digest.update(b"%d %d %d %d " % (mode, owner, len(path), len(content)))
            digest.update(path + content)
        return digest.hexdigest()


def _grew(before: str, now: str) -> bool:
    if not before or not now:
        return False
    _, old = json.loads(before)
    _, new = json.loads(now)
    return bool(new.startswith(old))
