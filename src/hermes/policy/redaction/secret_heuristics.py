"""Recognizes secrets by their context or their randomness."""

import math
import re
from base64 import b64decode
from binascii import Error
from collections import Counter
from itertools import pairwise

from hermes.plumbing.patterns import lazy_pattern

SECRET_WORD_STEMS = ("pass", "pwd", "_pw", "psk", "secret", "token", "credential", "key")
"""Words before a possible secret; `key` only after another word, as in `api_key`."""

_SECRET_NAME = (
    r"(?:passw(?:or)?d|passwd|pass(?:phrase|code)?|pwd|_pw|psk|secret|token|credentials?|key)"
)
ASSIGNED_VALUE = lazy_pattern(
    _SECRET_NAME + r"(?:_?(?:base64|b64|base|value|old|new|prod|test)|\d{1,2})?"
    r"(?P<quote>\\?[\"']?\]?)(?P<gap>\s*(?:=>|:=|[:=])\s*)"
    r"(?P<value>\\\"[^\"\\\n]{0,1500}\\\"|b?\\?\"(?:[^\"\\\n]|\\.){0,1500}\"|'[^'\n]{0,1500}'|[^\s,;&\"'<>)}\]|]{1,1500})",
    re.IGNORECASE,
)
XML_VALUE = lazy_pattern(
    _SECRET_NAME + r"[\w.-]{0,20}[\"']?\s*>\s*(?P<value>[^<>\s,;][^<>\s]{2,300})\s*</",
    re.IGNORECASE,
)
"""`<password>…</password>`, `<entry key="db.password">…</entry>`."""
NAME_VALUE_PAIR = lazy_pattern(
    _SECRET_NAME + r"[\w.-]{0,30}[\"']?,?\s{0,40}[\"']?value[\"']?\s*[:=]\s*"
    r"(?P<value>\"[^\"\n]{1,500}\"|'[^'\n]{1,500}'|[^\s,;<>}\"'|]{1,500})",
    re.IGNORECASE,
)
"""A name and its value as two fields, in YAML, JSON or XML: `name: DB_PASSWORD`, `value: …`."""
VALUE_NAME_PAIR = lazy_pattern(
    r"\bvalue\"?\s*[:=]\s*\"(?P<value>[^\"\n]{3,200})\"\s*,?\s*\"?(?:name|key)\"?\s*[:=]\s*\"[\w.-]{0,40}$",
    re.IGNORECASE,
)
"""The same with the value first; matches the text before the secret word."""
PASSWORD_IN_PROSE = lazy_pattern(
    r"pass(?:word|phrase|code)\b[^\n:=]{0,30}?\s(?:is|was)(?: now)?\s*:?\s+[\"'`]?"
    r"(?P<value>[^\s\"'`,;]{5,80})",
    re.IGNORECASE,
)
AMBIGUOUS_SECRET_NAMES = frozenset({"pass", "_pw", "psk"})
"""These have other meanings, too: they count only after another word (`DB_PASS`, `dbPass`)."""
OPTION_VALUE = lazy_pattern(
    r"(?:password|passwd|passphrase|secret|token|key)[ =]"
    r"(?P<value>\"[^\"\n]{1,500}\"|'[^'\n]{1,500}'|[^\s\"'-][^\s\"']{0,500})",
    re.IGNORECASE,
)
"""An option of a command: after `--` and possibly more words."""
KEY_QUALIFIER = lazy_pattern(
    r"(?:api|access|auth|account|app|client|encryption|master|private|secret|service|signing"
    r"|session|(?:pre)?shared|storage|deploy|license|webhook|admin|root|hmac|aes|jwt|auth)[_-]?$"
)
"""Words that must precede `key`."""
RANDOM_TOKEN = lazy_pattern(
    r"(?<![A-Za-z0-9_/+.-])[A-Za-z0-9+/_-]{32,128}={0,2}(?![A-Za-z0-9_/+=-])"
)

_PLACEHOLDER = lazy_pattern(
    r"[$<{%*«!…]|x{3,}|\.{3}|https?:|file:|arn:|.*(?:_HERE|example|changeme|placeholder|your[-_ ])",
    re.IGNORECASE,
)
"""Placeholders, and references to a secret that is stored elsewhere."""
_CODE_EXPRESSION = lazy_pattern(
    r".*[\[(]|(?:os|process|env|self|config|settings|this|request|args)\."
)
_PATH_START = lazy_pattern(r"(?:~|\.{1,2})?/")
_PLAIN_WORDS = lazy_pattern(r"[A-Za-z]+(?:[-_. ][A-Za-z]+)*[.:!?]?")
_ORDINARY_VALUE = lazy_pattern(
    r"none|null|nil|true|false|yes|no|on|off|empty|unset|missing|required|optional|invalid|incorrect"
    r"|expired|wrong|hidden|redacted|masked|string|str|text|bytes|int|integer|number|bool|boolean"
    r"|any|object|array|list|dict|password|passwd|secret|token|default|file|stdin|prompt|ask|keyring"
    r"|vault|env|environment|inherit|disabled|enabled|unknown|undefined|accepted|rejected|failed"
    r"|denied|success|changed|updated|created|deleted|rotated|generated|revoked|valid|ok|error|set"
)
_HARMLESS_PREFIX = lazy_pattern(
    r"(?:sha\d{1,3}[-:=]|md5[-:=]|h1:|zh:|integrity|checksum|digest|finger ?print|public|e-?tag"
    r"|request|trace|span|nonce|commit|revision|hash|cluster|ssh-\w+ |base64,|-id-2)"
    r"[\w\s\"':=-]{0,12}$",
    re.IGNORECASE,
)
_HEX = lazy_pattern(r"[0-9a-fA-F-]+")
_URLSAFE_CHARACTERS = b"-_"


_SETTING_START = lazy_pattern(
    r"(?:^|\n)[ \t]*(?:- |[+-](?=[ \t\w])[ \t]*|\d+[:\t][ \t]*|[\w./-]{1,80}:(?:\d+:)?[ \t]*)?"
    r"(?:export |set |Environment=)?[{\"']{0,2}[\w.-]{0,60}$"
)
_SETTING_END = lazy_pattern(r"[\"']?[ \t]*(?:(?P<comma>,)|[}]|#[^\n]*)?[ \t\r]*(?=\n|\Z)")
_INI_SECTION = lazy_pattern(r"(?m)^\[[\w .:@/-]{1,60}\][ \t\r]*$")
_TYPE_NAME = lazy_pattern(r"[A-Z]\w*(?:\.[A-Z]\w*)*")
_SINGLE_WORD = lazy_pattern(r"[A-Za-z]{8,}")
_MAX_SETTING_CHARS = 200
"""Characters of a line before the name of a setting."""


def is_setting(found: re.Match[str], *, quoted: bool) -> bool:
    """Return whether an assignment is a line of a configuration, where a plain word may be a
    password.

    In source code such a line names a type (`token: Token`), an argument (`token=token,`) or a
    variable (`token = token`).
    """
    text, gap, value = found.string, found["gap"], found["value"]
    line = text[max(0, found.start() - _MAX_SETTING_CHARS) : found.start()]
    end = _SETTING_END.match(text, found.end())
    if end is None or _SETTING_START.search(line) is None:
        return False
    if quoted:
        return bool(found["quote"]) or "=" in gap or ":" in gap
    if gap.strip() == ":":
        return gap != ":" and not _TYPE_NAME.fullmatch(value) and end["comma"] is None
    if gap == "=":
        return end["comma"] is None
    return gap.strip() == "=" and _INI_SECTION.search(text) is not None


def is_assigned_secret(
    name: str, value: str, *, quoted: bool, shouting: bool = False, setting: bool = False
) -> bool:
    """Return whether a value after a secret name is a secret, and not a text about one; `setting`:
    in a line of a configuration."""
    if (
        len(value) < 4
        or _PLACEHOLDER.match(value)
        or (not quoted and _CODE_EXPRESSION.match(value))
    ):
        return False
    if (_PATH_START.match(value) or (not quoted and "/" in value)) and not _mixes_character_kinds(
        value
    ):
        return False
    plain = value.lower().rstrip(".!?:")
    if _ORDINARY_VALUE.fullmatch(plain) or plain == name:
        return False
    if any(mark in name for mark in ("pass", "pwd", "_pw", "psk")):
        return quoted or shouting or setting or not _PLAIN_WORDS.fullmatch(value)
    if value.isdecimal():
        return len(value) >= 12
    if len(value) < 8:
        return False
    if setting and _SINGLE_WORD.fullmatch(value):
        return True
    return not _PLAIN_WORDS.fullmatch(value) or (len(value) >= 16 and _mixes_character_kinds(value))


def is_random_token(text: str, start: int, token: str) -> bool:
    """Return whether a token looks random, and the context does not explain why."""
    body = token.rstrip("=")
    if (
        not _mixes_character_kinds(body)
        or _HEX.fullmatch(body)
        or body.count("/") > 3
        or body[:2] == "_Z"
    ):
        return False
    if _entropy(body) < 4.2 or _count_kind_changes(body) < 0.42 * len(body):
        return False
    if _HARMLESS_PREFIX.search(text[max(0, start - 40) : start]):
        return False
    return not _is_text(token)


def _mixes_character_kinds(token: str) -> bool:
    return (
        any(letter.isdigit() for letter in token)
        and any(letter.isupper() for letter in token)
        and any(letter.islower() for letter in token)
    )


def _entropy(token: str) -> float:
    size = len(token)
    return -sum(n / size * math.log2(n / size) for n in Counter(token).values())


def _count_kind_changes(token: str) -> int:
    """Return how often a lower-case letter, a capital, a digit or a sign follows another kind."""
    kinds = [
        "a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "-" for c in token
    ]
    return sum(1 for before, after in pairwise(kinds) if before != after)


def _is_text(token: str) -> bool:
    """Base64 of readable text."""
    return decode_base64_text(token) is not None


def decode_base64_text(token: str) -> str | None:
    """The decoded text of a base64 token, or None."""
    try:
        data = b64decode(
            token + "=" * (-len(token) % 4), altchars=_URLSAFE_CHARACTERS, validate=False
        )
    except Error:
        return None
    readable = sum(32 <= byte < 127 or byte in (9, 10, 13) for byte in data)
    return data.decode("latin-1") if data and readable > 0.95 * len(data) else None
