"""Settings whose values are commands: some other program will run them, and nobody reads them."""

import re
from pathlib import PurePosixPath

_KEYS = (
    r"exec\w*|run|command\w*|cmd|script|scripts|shell|entrypoint|entry|hook\w*|program|args|"
    r"(?:pre|post|on|after|before|initialize|update)[-_]?(?:\w*command|start|stop|install|create|"
    r"build|attach|deploy|up|down|commit|checkout|merge|exec|script|invoke|run)|"
    r"proxycommand|localcommand|knownhostscommand|sshcommand|fsmonitor|pager|editor|helper|textconv|"
    r"clean|smudge|textconv|askpass|run\+|program\+|dpkg::\S+|apt::\S+|pipe|notify|action|mailcap|"
    r"preexec|postrotate|prerotate|firstaction|lastaction|local-exec|remote-exec|inline|user_data|"
    r"startup[-_]script|lifecycle|healthcheck|test|sh"
)
_VALUE = re.compile(
    rf"^[ \t]*(?:-[ \t]+)?[\"']?(?:{_KEYS})[\"']?[ \t]*(?:=|:|[ \t])[ \t]*(?:[-@:+!]*)(?=\S)"
    r"(?P<said>[^\n]+)$",
    re.IGNORECASE | re.MULTILINE,
)
_BLOCK = re.compile(
    rf"^(?P<in>[ \t]*)(?:-[ \t]+)?[\"']?(?:{_KEYS})[\"']?[ \t]*:[ \t]*[|>][-+]?[ \t]*\n"
    r"(?P<said>(?:(?P=in)[ \t]+[^\n]*\n?|[ \t]*\n)+)",
    re.IGNORECASE | re.MULTILINE,
)
_CRON = re.compile(
    r"^[ \t]*(?:@(?:reboot|hourly|daily|weekly|monthly)|(?:[\d*/,-]+[ \t]+){5})(?:root[ \t]+)?"
    r"(?P<said>\S[^\n]*)$",
    re.MULTILINE,
)
_ALIAS = re.compile(r"^[ \t]*[\w.-]+[ \t]*=[ \t]*[\"']?!(?P<said>[^\n]+)$", re.MULTILINE)
_ROTATED = re.compile(
    r"^[ \t]*(?:pre|post)rotate\n(?P<said>.*?)^[ \t]*endscript", re.DOTALL | re.MULTILINE
)


def commands_in(path: str, text: str) -> str:
    """One script of all commands among the settings, each on the line on which it stands."""
    kept = [""] * (text.count("\n") + 1)
    for pattern in (_VALUE, _BLOCK, _CRON, _ALIAS, _ROTATED):
        for found in pattern.finditer(text):
            line = text.count("\n", 0, found.start("said"))
            for number, said in enumerate(found["said"].rstrip("\n").split("\n")):
                kept[line + number] = _bare(said)
    return "\n".join(kept)


def _bare(said: str) -> str:
    said = said.strip().rstrip(",")
    if re.fullmatch(r"[|>][-+\d]*|[\[{(]", said):
        return ""
    if said[:1] in "\"'" and said[-1:] == said[:1]:
        return said[1:-1].replace('\\"', '"')
    if said.startswith("[") and said.endswith("]"):
        return " ".join(re.findall(r"[\"']((?:\\.|[^\"'\\])*)[\"']", said)).replace('\\"', '"')
    return said


_SETTINGS = {".yaml", ".yml", ".json", ".jsonc", ".toml", ".cfg", ".ini", ".conf", ".config",
             ".service", ".timer", ".socket", ".path", ".mount", ".desktop", ".rules", ".plist",
             ".tmpl", ".tpl", ".j2", ".tf", ".hcl", ".properties", ".gitconfig", ".cnf", ".env",
             ".nomad", ".network", ".link", ".override", ".crontab", ".logrotate", ""}  # fmt: skip


def is_settings(path: str) -> bool:
    return PurePosixPath(path).suffix.casefold() in _SETTINGS
