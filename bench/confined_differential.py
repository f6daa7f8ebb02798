"""Does confinement change what a plain read does? Random shell text, run with and without it.

usage: python bench/confined_differential.py [--cases N] [--seed S]
Every text that the careful set reads as a plain read runs in a throw-away folder, without
confinement and with its profile: exit code, output, errors and files must be the same. Every text,
whatever it was read as, also runs confined to reading: it may change no file. All of it happens in
a box (bubblewrap) in which nothing but the folder can be written.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio
from confinement import careful
from policy_differential import program, soup

from hermes.core.actions import ConfinementProfile
from hermes.core.protocols import CommandResult
from hermes.environments.local import LocalEnvironment
from hermes.policy.examination import action_from_description, parse_description

TIMEOUT_S = 20.0
TRIES = 3
READS = [
    "ls -la", "ls -1 sub", "cat a", "cat missing", "cat a bc", "wc -l a", "head -n 2 bc",
    "tail -n 1 a", "tail -c 3 bc", "id -u", "grep -n o a", "grep -rc e .", "grep -q zzz a",
    "sort -r bc", "sort -u a bc", "uniq -c bc", "cut -d: -f1 x-y", "tr a-z A-Z < a",
    "awk -F: '{print $2}' x-y", "sed -n 1,2p a", "sed s/o/0/ a", "find . -type f -name 'f*'",
    "find sub -maxdepth 1 -newer a", "stat -c %s a", "stat -c %a sub", "file a", "diff a bc",
    "diff -q a a", "cmp a bc", "comm -12 a bc", "md5sum a bc", "sha256sum x-y", "test -f a",
    "[ -d sub ]", "[[ a == a* ]]", "basename /x/y", "dirname /x/y", "realpath a", "readlink link",
    "cat link", "pwd", "echo *", "printf '%s\n' sub/*", "date -d @0 -u", "seq 3", "expr 1 + 2",
    "nl a", "tac bc", "rev a", "fold -w 3 a", "paste a bc", "join a a", "od -c a", "xxd bc",
    "base64 a", "jq .k data.json", "tar -tf tree.tar", "zcat z.gz", "gzip -dc z.gz",
    "git log --oneline", "git status -s", "git diff --stat", "git show HEAD:a",
    "git -C sub rev-parse HEAD", "git branch", "git ls-files", "git blame a", "du -b a",
    "df -P . > /dev/null", "ps -o pid= -p $$ | wc -l", "env -i /bin/echo x", "timeout 5 cat a",
    "nice cat a", "xargs -a a echo", "find . -name a -exec cat {} \\;", "column -t x-y",
    "getent passwd root", "uname -s", "nproc", "type ls", "command -v cat",
    "python3 -c 'print(1)'", "locale -a | head -1", "less a", "more a", "strings a",
    "tee /dev/null < a", "mapfile -t L < a; echo ${#L[@]}",
    "while read -r x; do echo \"$x\"; done < bc", "ls /proc/self/fd | wc -l", "cat /dev/null",
    "cat < /etc/hostname", "echo x >&2", "false", "exit 3", "kill -0 $$", "trap 'echo t' EXIT",
    "wait", "jobs", "times > /dev/null", "ulimit -n", "umask", "hash -r", "history", "(exit 4)",
    "sleep 0",
]  # fmt: skip
INDEX = ("/.git", "/.git/index")
BROKEN_PIPE = 141
NUMBERS = re.compile(r"(real|user|sys) [\d.]+|/dev/fd/\d+|\b\d{2,7}\b(?=:? (?:Done|Exit))")
BOX = (
    "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --unshare-all"
    " --die-with-parent --new-session --chdir /tmp"
)


def read(chance: random.Random, depth: int = 0) -> str:
    """Reads of many programs, put together in many ways."""
    if depth > 1 or chance.random() < 0.35:
        return chance.choice(READS)
    a, b = read(chance, depth + 1), read(chance, depth + 1)
    shapes = [
        f"{a}; {b}", f"{a} && {b}", f"{a} || {b}", f"{a} | {b}", f"( {a} )", f"{{ {a}; }}",
        f"! {a}", f"{a}\n{b}", f"if {a}; then {b}; fi", f"for i in 1 2; do {a}; done",
        f"{a} 2>/dev/null", f"{a} 2>&1 | {b}", f"diff <({a}) <({b})", f"echo $({a})",
        f'echo "$({a})" | {b}', f"{a} > /dev/null", f"cat <<E\n$({a})\nE\n{b}", f"cat <<< x | {a}",
        f"f() {{ {a}; }}; f", f"cd sub; {a}", f"LC_ALL=C {a}", f"{a} |& {b}", f"({a}) & wait",
        f"x=$({a}); echo ${{#x}}", f"set -o pipefail; {a} | {b}", f"case x in x) {a};; esac",
        f"{a} >&2", f"exec 3< a; {a}; exec 3<&-", f"cat <({a})", f"time -p {a}",
    ]  # fmt: skip
    return chance.choice(shapes)


def furnished(folder: Path) -> Path:
    """A new folder with something to read, of each kind."""
    folder.mkdir()
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    script = (
        "printf 'one\\ntwo\\nfour\\n' > a; printf 'two\\ntwo\\nzoo\\n' > bc;"
        "echo 'k:v w' > x-y; echo 1 > f1;"
        "mkdir sub; echo deep > sub/f2; ln -s a link; echo '{\"k\": 1}' > data.json;"
        "tar -cf tree.tar sub a; gzip -c a > z.gz;"
        f"{git} init -q .; {git} add a bc sub; {git} commit -qm first; echo five >> a"
    )
    subprocess.run(["bash", "-ec", script], cwd=folder, check=True)
    return folder


def state(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All that a change would show in. Reading a folder or a file changes none of it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        plain = path.is_file() and not path.is_symlink()
        content = path.read_bytes() if plain else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return found


def without_index(found: Mapping[str, object]) -> dict[str, object]:
    """git renews its index in passing where nothing forbids it; confined it does not."""
    return {path: facts for path, facts in found.items() if not path.endswith(INDEX)}


def normalised(result: CommandResult) -> tuple[int, list[str]]:
    """Without numbers of processes and times. Pipes may mix lines, and whether a writer notices
    that its reader has ended is a matter of time."""
    text = NUMBERS.sub("…", result.output)
    code = 0 if result.exit_code == BROKEN_PIPE else result.exit_code
    return code, sorted(text.splitlines())


async def outcomes(place: object, text: str) -> list[tuple[int, list[str]]]:
    """With output and errors together, and with the output alone."""
    run = place.run  # type: ignore[attr-defined]
    return [
        normalised(await run(f"( {text}\n){end}", timeout=TIMEOUT_S))
        for end in ("", " 2>/dev/null")
    ]


class Comparison:
    def __init__(self, place: LocalEnvironment, folder: Path) -> None:
        self._place, self._folder = place, folder
        self._policy = careful(str(folder))
        self.plain = self.unsteady = 0

    async def of(self, text: str) -> str:
        """What is wrong with the text; empty when nothing is."""
        if subprocess.run(["bash", "-nc", f"( {text}\n)"], stderr=subprocess.DEVNULL).returncode:  # noqa: ASYNC221
            return ""
        before = state(self._folder)
        async with self._place.confined(ConfinementProfile()) as held:
            await held.run(f"( {text}\n)", timeout=TIMEOUT_S)
        if state(self._folder) != before:
            return "a text confined to reading changed a file"
        action = action_from_description(parse_description({"command": text}))
        verdict = self._policy.decide(action)
        profile = verdict.profile
        if (
            verdict.verdict != "allow"
            or not self._policy.read_effects(action).is_read_only
            or profile is None
        ):
            return ""
        self.plain += 1
        return await self._both(text, profile)

    async def _both(self, text: str, profile: ConfinementProfile) -> str:
        found = ""
        for _ in range(TRIES):
            before = without_index(state(self._folder))
            free = await outcomes(self._place, text)
            between = state(self._folder)
            async with self._place.confined(profile) as held:
                confined = await outcomes(held, text)
                blocked = [str(each) for each in held.collect()]
            if without_index(between) != before:
                return "a plain read changed a file without confinement"
            if state(self._folder) != between:
                return "a plain read changed a file under confinement"
            again = await outcomes(self._place, text)
            if confined in (free, again):
                return ""
            found = f"free {free}\n     confined {confined}\n     {blocked}"
            if free != again:
                found = ""
        self.unsteady += not found
        return found


async def compare(cases: int, seed: int) -> int:
    chance = random.Random(seed)
    kinds = (soup, program, read, read)
    texts = [kinds[n % len(kinds)](chance) for n in range(cases)]
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = furnished(Path(name, "work"))
        variables = {"PATH": os.environ["PATH"], "HOME": name, "LANG": "C.UTF-8", "TERM": "dumb"}
        async with LocalEnvironment(folder, variables) as place:
            support = await place.kernel_support()
            if support.reason:
                raise SystemExit(f"nothing to compare: {support.reason}")
            comparison = Comparison(place, folder)
            for text in texts:
                if difference := await comparison.of(text):
                    wrong += 1
                    print(f"DIFFERS {text!r}\n     {difference}", flush=True)
    print(
        f"{len(texts)} texts run confined to reading; {comparison.plain} of them are plain reads "
        f"and were compared ({comparison.unsteady} never end the same): {wrong} differ"
    )
    return 1 if wrong else 0


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        return anyio.run(compare, chosen.cases, chosen.seed)
    here = [
        sys.executable,
        __file__,
        "--inside",
        f"--cases={chosen.cases}",
        f"--seed={chosen.seed}",
    ]
    return subprocess.run([*BOX.split(), *here]).returncode


if __name__ == "__main__":
    sys.exit(main())
