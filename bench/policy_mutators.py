"""Ways to say the same command differently: quoting, variables, wrappers, encodings, disguises.

A mutator takes a command and gives another text with the same effect, or None when it does not
apply. Each of them is run for real by policy_sandbox.py, so none is a change that does nothing.
"""

import base64
import random
import re
import shlex
from collections.abc import Callable, Iterator

Mutator = Callable[[str], str | None]

_SIMPLE = re.compile(r"[a-z][\w.-]*(?: [^|&;<>()$`\\\n!#]*)?\Z")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = word_set(
    "if for while until case function select time coproc alias export trap eval exec source set"
    " read command builtin history enable hash mapfile declare printf cd crontab ls cat echo"
)


def simple(command: str) -> tuple[str, str] | None:
    """Program and rest of a command that a wrapper can stand before."""
    if not _SIMPLE.match(command):
        return None
    program, _, rest = command.partition(" ")
    return None if program in _KEYWORDS else (program, f" {rest}" if rest else "")


def _on_program(change: Callable[[str], str]) -> Mutator:
    def mutate(command: str) -> str | None:
        found = simple(command)
        return None if found is None else change(found[0]) + found[1]

    return mutate


def _before(prefix: str) -> Mutator:
    return lambda command: f"{prefix} {command}" if simple(command) else None


def _whole(pattern: str) -> Mutator:
    """`{}` is the command, `{q}` the command as one quoted word."""

    def mutate(command: str) -> str | None:
        if "{}" in pattern and "\n" in command and "⏎" not in pattern:
            return None
        parts = re.split(r"(\{q?\})", pattern)
        filled = {"{}": command, "{q}": shlex.quote(command)}
        return "".join(filled.get(part, part) for part in parts)

    return mutate


def _encoded(command: str) -> str:
    return base64.b64encode(command.encode()).decode()


def _hex(word: str) -> str:
    return "$'" + "".join(f"\\x{ord(letter):02x}" for letter in word) + "'"


def _octal(word: str) -> str:
    return "$'" + "".join(f"\\{ord(letter):03o}" for letter in word) + "'"


def _words(template: str) -> Mutator:
    """`{p}` is the program, `{r}` the rest."""

    def mutate(command: str) -> str | None:
        found = simple(command)
        if found is None or (
            ("xargs" in template or "env -S" in template) and re.search("['\"]", command)
        ):
            return None
        return template.replace("{p}", found[0]).replace("{r}", found[1])

    return mutate


def _array(command: str) -> str | None:
    return None if simple(command) is None else f'A=({command}); "${{A[@]}}"'


def _brace(command: str) -> str | None:
    found = simple(command)
    if found is None or any(mark in found[1] for mark in "'\",{}"):
        return None
    return f"eval {{{','.join(command.split())}}}"


def _separated(command: str) -> str | None:
    found = simple(command)
    if found is None or any(mark in command for mark in "'\"*?"):
        return None
    return command.replace(" ", "${IFS}")


def _comma_separated(command: str) -> str | None:
    found = simple(command)
    if found is None or any(mark in command for mark in "'\",*?="):
        return None
    return f"IFS=,; X={command.replace(' ', ',')}; $X"


def _document(head: str) -> Mutator:
    return lambda command: f"{head} <<'END_OF_TEXT'\n{command}\nEND_OF_TEXT"


QUOTING: dict[str, Mutator] = {
    "backslash": _on_program(lambda word: word[0] + "\\" + word[1:] if len(word) > 1 else word),
    "leading backslash": _on_program(lambda word: "\\" + word),
    "single quotes": _on_program(lambda word: f"'{word}'"),
    "double quotes": _on_program(lambda word: f'"{word}"'),
    "inner quotes": _on_program(lambda word: word[0] + "''" + word[1:]),
    "half quoted": _on_program(lambda word: f'"{word[0]}"{word[1:]}'),
    "hex": _on_program(_hex),
    "octal": _on_program(_octal),
    "empty expansion": _on_program(lambda word: word[0] + "${NOT_SET_AT_ALL}" + word[1:]),
    "empty arguments": _on_program(lambda word: word[0] + "$@" + word[1:]),
    "default": _on_program(lambda word: "${NOT_SET_AT_ALL:-" + word[0] + "}" + word[1:]),
    "line continuation": _on_program(lambda word: word[0] + "\\\n" + word[1:]),
    "echo": _on_program(lambda word: f"$(echo {word})"),
    "backticks": _on_program(lambda word: f"`echo {word}`"),
    "printf": _on_program(
        lambda word: f"$(printf '{''.join('%b' for _ in word)}' {' '.join(word)})"
    ),
    "field separators": _separated,
    "own separators": _comma_separated,
    "braces": _brace,
}
VARIABLES: dict[str, Mutator] = {
    "variable": _words("X={p}; $X{r}"),
    "two variables": _on_program(lambda word: f"A={word[0]}; B={word[1:]}; $A$B"),
    "exported": _words("export X={p}; $X{r}"),
    "read": _words("read X <<< {p}; $X{r}"),
    "printf -v": _words("printf -v X %s {p}; $X{r}"),
    "positional": _words('set -- {p}{r}; "$@"'),
    "array": _array,
    "loop variable": _words("for X in {p}; do $X{r}; done"),
    "function": _whole("f() {⏎{}⏎}; f".replace("⏎", "\n")),
    "function of arguments": _words('f() { "$@"; }; f {p}{r}'),
    "alias": _words("shopt -s expand_aliases\nalias q={p}\nq{r}"),
    "case": _whole("case a in a)\n{}\n;; esac"),
    "if": _whole("if true; then\n{}\nfi"),
    "while": _whole("while :; do\n{}\nbreak; done"),
    "and": _whole("true &&\n{}"),
    "or": _whole("false ||\n{}"),
    "subshell": _whole("(\n{}\n)"),
    "group": _whole("{ :\n{}\n}"),
    "after": _whole("ls > /dev/null;\n{}"),
    "substitution": _whole("echo $(\n{}\n)"),
    "quoted substitution": _whole('echo "$(\n{}\n)"'),
    "process substitution": _whole("cat <(\n{}\n)"),
    "trap": _whole("trap {q} EXIT; true"),
    "background": _whole("{\n{}\n} & wait"),
    "redirected": _before(">/dev/null 2>&1"),
    "assignment": _before("LANG=C"),
}
_PREFIXES = (
    "env; env -i PATH=$PATH; env A=b; nohup; nice; nice -n 5; ionice -c 3; setsid -w; timeout 5;"
    " timeout -k 1 5; stdbuf -oL; command; exec; exec -a ls; time; nice env; env nice timeout 5;"
    " /usr/bin/env; flock /tmp/l; unshare -r; setarch x86_64; chrt -i 0; taskset 1; busybox"
)
WRAPPERS: dict[str, Mutator] = {
    name.strip(): _before(name.strip()) for name in _PREFIXES.split(";")
}
SHELLS: dict[str, Mutator] = {
    "bash -c": _whole("bash -c {q}"),
    "sh -c": _whole("sh -c {q}"),
    "bash -lc": _whole("bash -lc {q}"),
    "nested shells": lambda command: "sh -c " + shlex.quote(f"bash -c {shlex.quote(command)}"),
    "eval": _whole("eval {q}"),
    "builtin eval": _whole("builtin eval {q}"),
    "env -S": _words('env -S "{p}{r}"'),
    "here-string": _whole("bash <<< {q}"),
    "here-document": _document("bash"),
    "here-document to sh -s": _document("sh -s"),
    "piped": _whole("echo {q} | sh"),
    "printf piped": _whole("printf '%s\\n' {q} | bash"),
    "piped twice": _whole("echo {q} | cat | sh"),
    "source": _whole("source /dev/stdin <<< {q}"),
    "source process": _whole("source <(echo {q})"),
    "shell of process": _whole("bash <(echo {q})"),
    "base64": lambda command: f"echo {_encoded(command)} | base64 -d | sh",
    "base64 eval": lambda command: f'eval "$(echo {_encoded(command)} | base64 -d)"',
    "xxd": lambda command: f"echo {command.encode().hex()} | xxd -r -p | sh",
    "rev": lambda command: (
        None if "\n" in command else f"echo {shlex.quote(command[::-1])} | rev | sh"
    ),
    "gzip": _whole("echo {q} | gzip -c | gunzip -c | sh"),
    "write then run": _whole("echo {q} > /tmp/w.sh; sh /tmp/w.sh"),
    "xargs": _words("echo{r} | xargs {p}"),
    "xargs sh": lambda command: f"echo {shlex.quote(command)} | xargs -0 sh -c",
    "find -exec": lambda command: (
        None if "{}" in command else f"find / -maxdepth 0 -exec sh -c {shlex.quote(command)} \\;"
    ),
    "find -exec program": lambda command: (
        f"find / -maxdepth 0 -exec {command} \\;" if simple(command) else None
    ),
    "flock -c": _whole("flock /tmp/l -c {q}"),
    "script": _whole("script -qc {q} /dev/null"),
    "timeout sh": _whole("timeout 5 sh -c {q}"),
    "python": lambda command: f"python3 -c {shlex.quote(f'import os; os.system({command!r})')}",
    "perl": lambda command: f"perl -e {shlex.quote(f'system({_perl(command)})')}",
    "awk": lambda command: f"awk {shlex.quote(f'BEGIN {{ system({_awk(command)}) }}')}",
    "sed": lambda command: (
        None if "\n" in command else f"echo | sed {shlex.quote('1e ' + command)}"
    ),
    "vim": lambda command: None if "\n" in command else f"ex -c {shlex.quote(':!' + command)} -c q",
    "tar": lambda command: (
        f"tar cf /dev/null /dev/null --checkpoint=1 --checkpoint-action=exec={shlex.quote(command)}"
    ),
    "make": lambda command: (
        None
        if "\n" in command or "$" in command
        else f"make -s --eval={shlex.quote('x:; ' + command)} x"
    ),
    "git alias": lambda command: f"git -c {shlex.quote('alias.x=!' + command)} x",
    "watch": _whole("timeout 1 watch -n9 {q}"),
    "coproc": _whole("coproc { {}\n}; wait"),
    "watch exec": _words("systemd-run {p}{r}"),
    "sudo": _before("sudo"),
    "sudo -u": _before("sudo -u root --"),
    "doas": _before("doas"),
    "su": _whole("su root -c {q}"),
    "ssh": _whole("ssh web1 {q}"),
    "ssh options": _whole("ssh -o BatchMode=yes -p 22 deploy@web1 {q}"),
    "docker exec": _whole("docker exec api sh -c {q}"),
    "kubectl exec": _whole("kubectl exec -n prod api-0 -c app -- sh -c {q}"),
    "nsenter": _whole("nsenter -t 1 -m -- sh -c {q}"),
    "chroot": _whole("chroot /mnt sh -c {q}"),
    "at": _whole("echo {q} | at now"),
    "tmux": _whole("tmux new-session -d {q}"),
    "screen": _whole("screen -dm sh -c {q}"),
    "crontab": _whole("(crontab -l; echo '* * * * *' {q}) | crontab -"),
    "parallel": _whole("parallel ::: {q}"),
}
DISGUISES: dict[str, Mutator] = {
    "fullwidth": _on_program(lambda word: "".join(chr(ord(one) + 0xFEE0) for one in word)),
    "zero width": _on_program(lambda word: word[0] + "\u200b" + word[1:]),
    "carriage return": _whole("echo ok\r{}"),
    "bidi": _whole("echo \u202eok\u202c;\n{}"),
    "glob": _on_program(lambda word: f"/usr/bin/{word[:-1]}?"),
    "absolute": _on_program(lambda word: f"/usr/bin/{word}"),
    "dotted": _on_program(lambda word: f"/usr/bin/../bin/./{word}"),
}
REAL = {**QUOTING, **VARIABLES, **WRAPPERS, **SHELLS}
ALL = {**REAL, **DISGUISES}


def _awk(command: str) -> str:
    return '"' + command.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _perl(command: str) -> str:
    return '"' + re.sub(r'([\\"$@])', r"\\\1", command) + '"'


def generate(bases: list[str], each: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Base, names of the mutators, and the mutated command: single ones and pairs."""
    chance = random.Random(seed)
    names = sorted(ALL)
    for base in bases:
        made = 0
        for name in chance.sample(names, len(names)):
            changed = ALL[name](base)
            if changed is None or changed == base:
                continue
            second = chance.choice(names) if chance.random() < 0.4 else ""
            twice = ALL[second](changed) if second else None
            yield base, f"{name}, {second}" if twice else name, twice or changed
            made += 1
            if made == each:
                break
