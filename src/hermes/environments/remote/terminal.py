"""A background process elsewhere with a terminal, for programs that insist on one.

The terminal ends with our connection, and the process with it. It cannot be found again.
"""

import anyio

from hermes.core.actions import Blocked
from hermes.core.errors import PlaceFailed, ToolError
from hermes.environments.processes.tree import GRACE
from hermes.environments.remote.line import Line, LineBroken, open_terminal
from hermes.environments.remote.lines import PATIENCE, Lines
from hermes.environments.remote.process_scripts import FORGET
from hermes.environments.remote.scripts import ADD_REPORT, LINE, Start, program
from hermes.environments.remote.word import LastWord
from hermes.environments.shell import new_tree

_LAST_WORDS = 1.0

# A program cannot be sent over a terminal, which would echo it, or cut it: it lies in a file.
_PLACE = r"""
mkdir -m 700 -- "$folder" && cat > "$folder/program" || return 1
[[ -z $long ]] || builtin printf %s "$long" > "$folder/command"
"""
_READ = r"""printf '\0hermes:ready:%s\n' $$; . "$1"/program"""


class RemoteTerminal:
    def __init__(self, lines: Lines, line: Line, tree: str, folder: str) -> None:
        self.pid: int | None = line.pid
        self.handle = f"terminal:{tree}"
        self.ended = False
        self._lines, self._line, self._tree, self._folder = lines, line, tree, folder
        self._code: int | None = None
        self.blocked: list[Blocked] = []
        """What the kernel refused it, known when it has ended."""

    async def output(self) -> bytes:
        if self.ended:
            return b""
        try:
            data = await self._line.piece()
        except LineBroken as broken:
            self._code = broken.code or None
            data = b""
        if not data:
            await self.close()
        return data

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self.ended:
            raise ToolError("the process does not take its input")
        await self._line.write(data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"))

    async def wait(self) -> int | None:
        """Nobody need listen: then it is the client program that tells."""
        code = await self._line.client.wait()
        return self._code if self.ended else code

    async def kill(self) -> None:
        await self._lines.end(self._tree, self._line.pid, grace=GRACE)
        await self._lines.ask(FORGET, {"folder": self._folder})  # if that was ended as well
        with anyio.move_on_after(_LAST_WORDS):
            while await self.output():
                pass

    async def close(self) -> None:
        if not self.ended:
            self.ended = True
            last = LastWord(self._line.word)
            if last.code is not None:
                self._code = last.code
            self.blocked += last.blocked
            self._lines.drop(self._line)


async def start(lines: Lines, of: Start, folder: str, *, tree: str, long: str) -> RemoteTerminal:
    nonce = new_tree()
    run = f"{of.before}\n{of.inner}\nword=$?"
    body = f'{run}\n{ADD_REPORT}\nrm -rf -- "$folder"'
    words = {**of.words, "folder": folder, "report": f"{folder}/report"}
    text = program(body, nonce, words, quiet=True) + 'exit "${word%% *}"\n'
    word, said = await lines.ask(_PLACE, {"folder": folder, "long": long}, text.encode())
    if word != "0":
        raise PlaceFailed(
            f"{lines.client.place} cannot keep a file: {said.decode(errors='replace')}"
        )
    argv = ("bash", "--norc", "-c", _READ, LINE, folder)
    line = open_terminal(lines.client.words(argv, terminal=True), lines.client.variables)
    line.expect(nonce)
    try:
        with anyio.fail_after(PATIENCE):
            await line.ready()
    except (LineBroken, TimeoutError) as error:
        lines.drop(line)
        raise PlaceFailed(f"{lines.client.place} gives no terminal: {error}") from error
    except BaseException:
        lines.drop(line)
        raise
    return RemoteTerminal(lines, line, tree, folder)
