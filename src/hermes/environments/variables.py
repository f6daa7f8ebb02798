"""Chooses what a command may see of our own variables: named ones, and never our keys."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

ALWAYS = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What nearly every program wants and nobody minds."""

_SECRET = (
    "*KEY", "*KEY_ID", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*_DSN", "*_AUTH", "DATABASE_URL",
)  # fmt: skip


def child_variables(
    ours: Mapping[str, str], granted: Sequence[str] = (), withheld: Collection[str] = ()
) -> dict[str, str]:
    """The variables of a command.

    `granted` comes from the operator: an exact name is passed even if it looks like a secret, a
    pattern never reaches one. `withheld` are the names of our own keys; nothing passes those.
    """
    chosen = {"TERM": "dumb"}
    for name, value in ours.items():
        if name in withheld:
            continue
        if name in granted or (not _looks_secret(name) and _matches(name, (*ALWAYS, *granted))):
            chosen[name] = value
    chosen.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return chosen


def _looks_secret(name: str) -> bool:
    return _matches(name.upper(), _SECRET)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
