"""Does bash run what we say it runs? Random shell text, read by us and by a real bash, compared.

usage: python bench/policy_differential.py [--cases N] [--seed S]
No program exists for that bash: whatever it would run is caught by `command_not_found_handle` and
written down. A command that bash ran, that we did not list, in a text that we would let pass, is a
hole; each is printed.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from pathlib import Path

from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import CommandAnalysis

PROGRAMS = ["rm", "ls", "cat", "wc", "head", "mv", "id", "touch"]
SOUP = [
    *PROGRAMS, "a", "b", "-f", "x y", " ", " ", " ", " ", ";", "&&", "||", "|", "&", "\n", "'",
    "\"", "\\", "$", "$(", ")", "(", "{ ", "; }", "}", "{", ",", "`", "#", " #", "<<E\n",
    "\nE\n", "<<<", "> /dev/null", "2>&1", "X=rm", "X=", "$X", "${X}", "${X:-rm}", "$'\\x72'",
    "r''m", "r\\m", "\\\n", "if ", "then ", "fi", "for i in ", "do ", "done", "while ",
    "case a in ", "a) ", ";;", "esac", "! ", "[[ a ]]", "((1))", "$((1))", "f() { ", "f",
    "echo ", "eval ", "true ", "$IFS", "*", "~", "!", "=", "&>", "|&", "<(", "$@", "time ",
    "-- ", "command ", "exec ", "env ", "sh -c ", "xargs ", "$'", "$\"", "\t", "\r",
]  # fmt: skip
RUNNER = r"""
import json, os, subprocess, sys
handler = '() { printf "%s\\0" "$@" $(printf "\\1") >&9; }'
for line in sys.stdin:
    text = json.loads(line)
    got, put = os.pipe()
    os.dup2(put, 9, inheritable=True)
    try:
        subprocess.run(
            ["/bin/bash", "-f", "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=2, pass_fds=(9,),
            env={"PATH": "/no", "HOME": "/h", "BASH_FUNC_command_not_found_handle%%": handler},
        )
        late = False
    except subprocess.TimeoutExpired:
        late = True
    os.close(9); os.close(put)
    os.set_blocking(got, False)
    try:
        raw = os.read(got, 60000)
    except BlockingIOError:
        raw = b""
    os.close(got)
    ran = [one.split(b"\0")[:-1] for one in raw.split(b"\1\0") if one]
    words = [[word.decode("utf-8", "replace") for word in argv] for argv in ran]
    print(json.dumps(words), flush=True)
"""


def word(chance: random.Random) -> str:
    """A word of letters, said in one of many ways."""
    letters = chance.choice([*PROGRAMS, "a", "bc", "x-y", "f1"])
    cut = chance.randrange(1, len(letters)) if len(letters) > 1 else 0
    head, tail = letters[:cut], letters[cut:]
    ways = [
        letters, letters, f"'{letters}'", f'"{letters}"', f"{head}''{tail}", f"{head}\\{tail}",
        "$'" + "".join(f"\\x{ord(one):02x}" for one in letters) + "'", f"{head}${{N}}{tail}",
        f"${{N:-{letters}}}", f"$(echo {letters})", f"`echo {letters}`", f"{{{letters},{head}}}",
        f'"{head}"\'{tail}\'', f"${{V}}{letters}", f"$(printf %s {letters})", f'"$V{letters}"',
        "$P", '"$P"',
    ]  # fmt: skip
    return chance.choice(ways)


def command(chance: random.Random) -> str:
    return " ".join([word(chance) for _ in range(chance.randint(1, 4))])


def program(chance: random.Random, depth: int = 0) -> str:
    """A well-formed text."""
    if depth > 2 or chance.random() < 0.3:
        return command(chance)
    a, b = program(chance, depth + 1), program(chance, depth + 1)
    c, w = command(chance), word(chance)
    shapes = [
        f"{a}; {b}", f"{a} && {b}", f"{a} || {b}", f"{a} | {b}", f"( {a} )", f"{{ {a}; }}",
        f"{a}\n{b}", f"if {a}; then {b}; fi", f"for i in x; do {a}; done", f"! {a}", f"{a} & {b}",
        f"case a in a) {a};; esac", f"f() {{ {a}; }}; f", f"echo $({a})", f'echo "$({a})"',
        f"cat <<E\n$({a})\nE\n{b}", f"P={w}; {b}", f"P=$({a}); {b}", f"{a} > /dev/null",
        f"{a} 2>&1 | {b}", f"eval {json.dumps(a)}", f"{a} # {b}", f"cat <({a})", f"P=rm {b}",
        f"while {a}; do {b}; break; done", f"{a} <<E\nx\nE\n{b}", f"cat <<'E' | {b}\n{a}\nE\n",
        f"until {a}; do {b}; break; done", f'[ -n "$({a})" ]', f'A=({c}); "${{A[@]}}"',
        f'set -- {c}; "$@"', f">/dev/null {c}", f"{c} >/dev/null {w}", f"command {c}",
        f"{a} |& {b}", f"{a} \\\n {b}",
    ]  # fmt: skip
    return chance.choice(shapes)


def soup(chance: random.Random) -> str:
    return "".join(chance.choice(SOUP) for _ in range(chance.randint(3, 14)))


def listed(argv: list[str], analysis: CommandAnalysis) -> bool:
    """Whether the analysis knows this command, unknown parts standing for anything."""
    said = "".join(f" {word}" for word in argv)
    for found in analysis.commands:
        pattern = "".join(
            "(?: .*)?" if "…" in word else " " + ".*".join(map(re.escape, word.split("…")))
            for word in found.argv
        )
        if argv[0] in found.via or re.fullmatch(pattern, said, re.S):
            return True
    return False


def run_bash(texts: list[str]) -> list[list[list[str]]]:
    """What a bash without any program would have run, inside a box without anything to break."""
    box = [
        "bwrap",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ]
    box += [
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    box += ["--unshare-all", "--die-with-parent", "--chdir", "/tmp"]
    with subprocess.Popen(
        [*box, "/usr/bin/python3", "-c", RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stdin and runner.stdout
        ran = []
        for text in texts:
            runner.stdin.write(json.dumps(text) + "\n")
            runner.stdin.flush()
            ran.append(json.loads(runner.stdout.readline()))
        runner.stdin.close()
    return ran


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=2000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    chance = random.Random(chosen.seed)
    texts = [(soup if n % 2 else program)(chance) for n in range(chosen.cases)]
    holes, strays, plain, executed = [], 0, 0, 0
    for text, ran in zip(texts, run_bash(texts), strict=True):
        analysis = analyse_command(text, cwd="/tmp", home="/h")
        executed += len(ran)
        plain += analysis.is_read_only
        missing = [argv for argv in ran if argv and not listed(argv, analysis)]
        if missing and analysis.is_read_only:
            holes.append((text, missing))
        strays += bool(missing) and "exec-dynamic" not in analysis.effects
    for text, missing in holes[:20]:
        print(f"HOLE {text!r}\n     bash ran {missing}")
    print(
        f"{len(texts)} texts, {executed} commands run by bash, {plain} texts read as plain: "
        f"{len(holes)} holes, {strays} texts held for another reason than the command that ran"
    )
    return 1 if holes else 0


if __name__ == "__main__":
    assert Path("/usr/bin/bwrap").exists(), "bubblewrap is needed"
    sys.exit(main())
