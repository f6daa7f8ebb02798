"""Patterns of secrets: by the prefix of their issuer, by the text before them, and key blocks.

For speed, plain words are searched first: a pattern is tried only where its word occurs. Characters
that hide a word from a search are removed before: a token with colour codes or zero-width
characters, or one that a terminal wrapped, looks complete to a person.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Self

from hermes.core.messages import Value
from hermes.plumbing.patterns import lazy_pattern

_INVISIBLE = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)"
    r"|[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_LINE_BREAK = re.compile(r"\\?\r?\n[ \t]*(?:[>|][ \t]+)?")
_INVISIBLE_OR_LINE_BREAK = re.compile(f"{_INVISIBLE.pattern}|{_LINE_BREAK.pattern}")

SecretSpan = tuple[int, int, str]
"""Start, end and kind of a secret."""


class FoldedText:
    """`_starts` and `_shifts`: from each position on, how many characters were removed before."""

    def __init__(self, text: str, starts: list[int], shifts: list[int]) -> None:
        self.text = text
        self._starts, self._shifts = starts, shifts

    @classmethod
    def without(cls, text: str, pattern: re.Pattern[str]) -> Self | None:
        """Return None when nothing matches."""
        pieces, starts, shifts, done, size = [], [0], [0], 0, 0
        for match in pattern.finditer(text):
            pieces.append(text[done : match.start()])
            size += match.start() - done
            done = match.end()
            starts.append(size)
            shifts.append(done - size)
        return cls("".join([*pieces, text[done:]]), starts, shifts) if done else None

    def lower(self) -> Self:
        """A text that gets longer in lower case cannot be mapped: the result is empty."""
        lower = self.text.lower()
        return type(self)(lower if len(lower) == len(self.text) else "", self._starts, self._shifts)

    def original(self, span: SecretSpan) -> SecretSpan:
        start, end, name = span
        return self._original_position(start), self._original_position(end - 1) + 1, name

    def _original_position(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]


def fold_all(text: str) -> FoldedText:
    """The text without invisible characters and line breaks."""
    return FoldedText.without(text, _INVISIBLE_OR_LINE_BREAK) or FoldedText(text, [0], [0])


def fold_invisible(text: str) -> FoldedText | None:
    if text.isascii() and "\x1b" not in text:
        return None
    return FoldedText.without(text, _INVISIBLE)


def fold_line_breaks(text: str) -> FoldedText | None:
    return FoldedText.without(text, _LINE_BREAK) if "\n" in text else None


LONG_TOKEN = lazy_pattern(r"[A-Za-z0-9_.:/+=~%-]{20,}")
"""The minimum length and the characters of all issued tokens."""

ISSUED_KEY_PATTERNS: Mapping[str, str] = {
    "anthropic-key": r"sk-ant-[\w-]{20,}",
    "openrouter-key": r"sk-or-(?:v\d-)?[\w-]{20,}",
    "openai-key": r"sk-(?:proj-|svcacct-|admin-|None-)?(?=[\w-]*\d)[A-Za-z0-9_-]{20,}",
    "github-token": r"gh[pousr]_[A-Za-z0-9]{30,}",
    "github-pat": r"github_pat_\w{40,}",
    "gitlab-token": r"gl(?:pat|dt|rt|ft|cbt|ptt|soat|agent|imt|ffct|oas)-[\w.-]{20,}",
    "slack-token": r"(?:xox[abeoprs](?:\.xox[bp])?|xapp)-[\w-]{10,}",
    "aws-key-id": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])",
    "google-key": r"AIza[\w-]{35}",
    "google-token": r"(?:ya29\.[\w-]{20,}|1//0[\w-]{30,})",
    "google-secret": r"GOCSPX-[\w-]{20,}",
    "stripe-key": r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",
    "stripe-webhook": r"whsec_[A-Za-z0-9+/=]{24,}",
    "telegram-token": r"\d{8,10}:AA[\w-]{32,}",
    "sendgrid-key": r"SG\.[\w-]{16,32}\.[\w-]{16,64}",
    "mailgun-key": r"key-[0-9a-f]{32}(?![0-9a-f])",
    "twilio-key": r"SK[0-9a-f]{32}(?![0-9a-f])",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-AgE[\w-]{50,}",
    "huggingface-token": r"hf_[A-Za-z]{30,}|hf_[A-Za-z0-9]{34}",
    "digitalocean-token": r"do[opr]_v1_[0-9a-f]{64}",
    "shopify-token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "vault-token": r"hv[sbr]\.[\w-]{24,}",
    "grafana-token": r"(?:glsa_\w{32}_[0-9a-fA-F]{8}|glc_[\w+/=]{32,})",
    "docker-token": r"dckr_(?:pat|oat)_[\w-]{24,}",
    "atlassian-token": r"ATATT3[\w=-]{50,}",
    "databricks-token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "groq-key": r"gsk_[A-Za-z0-9]{40,}",
    "xai-key": r"xai-[A-Za-z0-9]{60,}",
    "nvidia-key": r"nvapi-[\w-]{40,}",
    "perplexity-key": r"pplx-[A-Za-z0-9]{40,}",
    "replicate-token": r"r8_[A-Za-z0-9]{36,}",
    "linear-key": r"lin_api_[A-Za-z0-9]{32,}",
    "notion-token": r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})",
    "figma-token": r"figd_[\w-]{36,}",
    "newrelic-key": r"NR(?:AK|JS)-[A-Z0-9a-f]{19,}",
    "sentry-token": r"sntry[su]_[\w+/=]{40,}",
    "tailscale-key": r"tskey-[a-z]+-[\w-]{20,}",
    "age-key": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    "discord-token": r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}",
    "jwt": r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",
}

WRAPPED_PREFIX = lazy_pattern(
    r"(?<![A-Za-z0-9_-])(?:sk-|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox[abeoprs]|xapp-|A(?:KIA|SIA)"
    r"|AIza|ya29\.|GOCSPX-|[sr]k_(?:live|test)_|SG\.|npm_|pypi-AgE|hf_|do[opr]_v1_|hv[sbr]\.|glsa_"
    r"|dckr_|ATATT3|dapi|gsk_|xai-|nvapi-|lin_api_|ntn_|tskey-|eyJ)[A-Za-z0-9_.+/=~%-]*\\?\r?$"
)
"""The beginnings of issued tokens, for a token that is cut off at the end of a line."""
_NAMED_GROUPS = "|".join(
    f"(?P<{name.replace('-', '_')}>{regex})" for name, regex in ISSUED_KEY_PATTERNS.items()
)
ISSUED_KEY = lazy_pattern(
    rf"(?<![A-Za-z0-9_-])(?:{_NAMED_GROUPS})|(?<=/bot)\d{{8,10}}:AA[\w-]{{32,}}"
)


class SecretContext(Value, frozen=True):
    """A secret that is recognized by the text before it."""

    name: str
    anchors: tuple[str, ...]
    """In lower case; the pattern is tried where one of them occurs."""
    pattern: str
    """The group `secret` is removed, or the whole match without this group."""

    @property
    def regex(self) -> re.Pattern[str]:
        return _compile_context(self.pattern)


@cache
def _compile_context(pattern: str) -> re.Pattern[str]:
    """Compiled when an anchor occurs: all of them together take a tenth of a short start."""
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _build_context(name: str, anchors: tuple[str, ...], pattern: str) -> SecretContext:
    return SecretContext(name, anchors, pattern)


_WORD_START = r"(?<![A-Za-z0-9_])"
_QUOTED_SECRET = r"(?P<secret>'[^'\n]+'|\"[^\"\n]+\"|[^\s'\"]+)"
SECRET_CONTEXTS: tuple[SecretContext, ...] = (
    _build_context(
        "private-key",
        ("-----begin",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?!-----END).)*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    _build_context(
        "slack-webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{20,})",
    ),
    _build_context(
        "discord-webhook", ("/api/webhooks/",), r"/api/webhooks/\d+/(?P<secret>[\w-]{40,})"
    ),
    _build_context(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?:AccountKey|SharedAccessKey)=(?P<secret>[a-z0-9+/]{40,}={0,2})",
    ),
    _build_context("signature", ("sig=",), _WORD_START + r"sig=(?P<secret>[\w%+/-]{20,}={0,2})"),
    _build_context(
        "signature",
        ("-signature=", "&signature=", "?signature=", "-security-token="),
        r"[-&?](?:signature|security-token)=(?P<secret>[\w%+/~.-]{20,}={0,2})",
    ),
    _build_context("url-token", ("://",), r"://(?P<secret>(?=[\w-]*\d)[\w-]{20,200})@(?=[\w\[])"),
    _build_context(
        "teams-webhook",
        ("webhook.office.com/",),
        r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,})",
    ),
    _build_context(
        "url-password",
        ("://",),
        r"://[^\s:/@\"'<>]{0,200}:(?P<secret>[^\s@/\"'<>]{3,500})@(?=[\w\[])",
    ),
    _build_context(
        "password-hash",
        ("$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2y$", "$apr1$", "$argon2", "$7$"),
        r"\$(?:1|5|6|y|7|2[aby]|apr1|argon2id?)\$[\w./$,=+-]{20,300}",
    ),
    _build_context(
        "password-hash",
        ("{ssha", "{sha", "{smd5", "{crypt", "{pbkdf2"),
        r"\{(?:SSHA\d*|SHA\d*|SMD5|CRYPT|PBKDF2[\w-]*)\}(?P<secret>[\w./$+=-]{20,300})",
    ),
    _build_context(
        "password-hash", ("scram-sha-",), r"SCRAM-SHA-\d+\$\d+:(?P<secret>[\w+/=$:]{40,300})"
    ),
    _build_context("password-hash", ("md5",), _WORD_START + r"md5[0-9a-f]{32}(?![0-9a-f])"),
    _build_context("password-hash", ("'*",), r"'\*[0-9a-f]{40}'"),
    _build_context(
        "authorization",
        ("authorization",),
        r"authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey)[ =]+)?"
        r"(?P<secret>[\w.~+/=-]{12,})",
    ),
    _build_context(
        "authorization", ("bearer",), _WORD_START + r"bearer[\s:]+(?P<secret>[\w.~+/=-]{16,})"
    ),
    _build_context(
        "cookie", ("cookie:",), r"cookie:\s*(?P<secret>[^\r\n\"'=]{0,200}=[^\r\n\"']{8,4000})"
    ),
    _build_context("netrc", ("login ",), r"login\s+\S{1,100}\s+password\s+(?P<secret>\S{1,300})"),
    _build_context(
        "netrc",
        ("machine ",),
        r"machine\s+\S{1,200}\s+(?:\w+\s+\S{1,100}\s+)?password\s+(?P<secret>\S{1,300})",
    ),
    _build_context(
        "pgpass",
        (":5432:", ":5433:", ":6432:", ":*:"),
        r":(?:\d+|\*):[^:\s]{1,100}:[^:\s]{1,100}:(?P<secret>[^\s]{4,300})(?=\s|$)",
    ),
    _build_context(
        "registry-auth",
        ('"auth"', "_auth="),
        r"(?:\"auth\"\s*:\s*\"|_auth=)(?P<secret>[a-z0-9+/]{8,}={0,2})",
    ),
    _build_context(
        "client-key",
        ("client-key-data",),
        r"client-key-data[\"']?:\s*[\"']?(?P<secret>[\w+/=]{20,})",
    ),
    _build_context(
        "redis-password",
        ("requirepass ", "masterauth "),
        r"(?:requirepass|masterauth)\s+(?P<secret>(?=\S*\d)\S{6,})",
    ),
    _build_context(
        "passphrase",
        ("passphrase:", "passphrase=", "passphrase =", 'passphrase "'),
        r"passphrase(?:\s*[:=]\s*[\"']?|\s+\")(?!none|required|incorrect|wrong|invalid|not|is\b|null"
        r"|empty|true|false|yes|no\b)(?P<secret>[^\s\"'#<>$][^\n\"'#<>]{5,200})",
    ),
    _build_context(
        "pin",
        ("pin=", "pin:", "pin ="),
        r"(?:(?<![\w-])|(?<=[a-z]_)|(?<=[a-z]-))pin\s?[:=]\s?(?P<secret>\d{4,12})(?![\w.:])",
    ),
    _build_context(
        "password",
        tuple(
            f"{name}{space}"
            for name in ("_pass", "_password", "_passwd", "_pw", "_pwd", "bindpw", "rootpw")
            for space in " \t"
        ),
        r"(?:(?<=[a-z0-9])_(?:pass|password|passwd|pwd?)|(?<![\w-])(?:bindpw|rootpw))[ \t]+"
        r"(?P<secret>(?=\S*\d)(?=\S*[a-z])[^\s:/=,;()<>]{5,100})(?=\s|$)",
    ),
    _build_context(
        "snmp-community",
        ("rocommunity", "rwcommunity"),
        r"r[ow]community6?\s+(?P<secret>[^\s#]{4,200})",
    ),
    _build_context("key-secret", ('secret "',), r"secret\s+\"(?P<secret>[\w+/]{16,200}={0,2})\""),
    _build_context("age-key", ("age-secret-key-",), r"AGE-SECRET-KEY-(?P<secret>1[0-9a-z]{40,80})"),
    _build_context(
        "named-password",
        ("passwort", "kennwort", "mot de passe", "contraseña", "senha"),
        r"(?:passwort|kennwort|mot de passe|contraseña|senha)\s*[:=]\s*"
        r"(?P<secret>(?=\S*\d)\S{5,200})",
    ),
    _build_context(
        "xml-password", ("password</name>",), r"password</name>\s*<value>(?P<secret>[^<\n]{3,300})<"
    ),
    _build_context(
        "terraform-output",
        ('"sensitive"',),
        r"\"sensitive\"\s*:\s*true[^{}]{0,300}?\"value\"\s*:\s*\"(?P<secret>[^\"\n]+)\"",
    ),
    _build_context(
        "oracle-password",
        ("sqlplus ", "jdbc:oracle:"),
        r"(?:sqlplus\s+(?:-\w+\s+)*|jdbc:oracle:\w+:)[\w.-]+/(?P<secret>[^\s@/]{3,100})@",
    ),
    _build_context(
        "sql-password",
        ("identified ", "password '"),
        r"(?:identified\s+(?:with\s+\w+\s+)?by|password)\s+'(?P<secret>[^'\n]+)'",
    ),
    _build_context(
        "sql-password",
        ("set password ",),
        r"set\s+password\s+for\s+[^=\n]{1,100}=\s*(?:password\()?'(?P<secret>[^'\n]+)'",
    ),
    _build_context(
        "curl-password",
        ("curl ",),
        _WORD_START
        + r"curl\b[^\n|;&]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:(?P<secret>[^\s\"']+)",
    ),
    _build_context(
        "mysql-password",
        ("mysql", "mariadb"),
        _WORD_START + r"(?:mysql\w*|mariadb)\b[^\n|;&]{0,300}?\s-p(?P<secret>[^\s-]\S*)",
    ),
    _build_context(
        "command-password",
        ("sshpass ", "redis-cli ", "docker login", "ldap", "mongo", "az login", "unzip ", "zip "),
        r"(?:sshpass\s+-p|redis-cli\b[^\n|;&]{0,300}?\s-a"
        r"|(?:docker\s+login|az\s+login|mongo\w*)\b[^\n|;&]{0,300}?\s-p"
        r"|ldap(?:search|modify|add|delete|passwd|whoami)\b[^\n|;&]{0,300}?\s-w"
        r"|(?:un)?zip\s+(?:-\w+\s+)*-P)[ =]?" + _QUOTED_SECRET,
    ),
    _build_context(
        "command-password",
        ("7z ", "7za "),
        _WORD_START + r"7za?\s[^\n|;&]{0,200}?\s-p(?P<secret>[^\s-]\S*)",
    ),
    _build_context(
        "command-password",
        ("smbclient ", "rpcclient "),
        r"(?:smb|rpc)client\b[^\n|;&]{0,300}?-U\s*[^\s%]+%(?P<secret>\S+)",
    ),
    _build_context(
        "command-password",
        ("htpasswd ",),
        r"htpasswd\s+(?:-\w+\s+)*-\w*b\w*\s+(?:-\w+\s+)*\S+\s+\S+\s+" + _QUOTED_SECRET,
    ),
    _build_context("command-password", ("pass:",), r"(?<=\s)pass:(?P<secret>\S{3,200})"),
    _build_context(
        "command-password",
        ("snmp",),
        _WORD_START + r"snmp\w+\b[^\n|;&]{0,200}?\s-A\s*(?P<secret>[^\s-]\S*)",
    ),
    _build_context(
        "command-password",
        ("snmp",),
        _WORD_START + r"snmp\w+\b[^\n|;&]{0,200}?\s-X\s*(?P<secret>[^\s-]\S*)",
    ),
    _build_context(
        "command-password",
        ("echo ", "printf "),
        r"(?:echo|printf)\s+(?:-\w+\s+)*(?:'%s\\?n?'\s+)?[\"']?(?:[\w.-]+:)?(?P<secret>[^\s\"'|]{3,200})"
        r"[\"']?\s*\|\s*(?:sudo\s+(?:-\w+\s+)*)?(?:sudo\s+-S|-S\b|chpasswd|passwd\s+--stdin)",
    ),
)


_KEY_BODY = lazy_pattern(
    r"(?m)^[ \t]*(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})\r?\n"
    r"(?:[ \t]*[A-Za-z0-9+/]{8,76}={0,2}(?:\r?\n|$))+"
)
"""At least two lines with the width that OpenSSL and OpenSSH use."""
_HEX_DIGEST = lazy_pattern(r"\s*(?:[0-9a-f]{64}|[0-9A-F]{64})\s")
"""Lists of SHA-256 digests have lines of that width, too."""
_KEY_LINE = lazy_pattern(r"[A-Za-z0-9+/]{4,76}={0,2}")
_KEY_END = lazy_pattern(r"-----END [A-Z0-9 ]*PRIVATE KEY")
_KEY_START = lazy_pattern(
    r"(?<![A-Za-z0-9+/])(?:b3BlbnNzaC1rZXktdjE|MII[A-Za-z0-9+/]{2}(?:IBADANBg|IBAAKC|QIBAAK)"
    r"|LS0tLS1CRUdJTiB[A-Za-z0-9+/]{0,12}(?:UFJJVkFURS|QUklWQVRF|BSSVZBVEUg))"
    r"[A-Za-z0-9+/=]*(?:\r?\n[ \t]*[A-Za-z0-9+/=]{16,})*"
)
_KEY_BASE64_PREFIXES = ("b3BlbnNzaC1rZXktdjE", "MII", "LS0tLS1CRUdJTiB")
_KEY_WIDTHS = (64, 70)
PUBLIC_BLOCK = lazy_pattern(
    r"-----BEGIN (?:CERTIFICATE|[A-Z ]*PUBLIC KEY)[^-]*-----.*?-----END [^-]+-----", re.DOTALL
)
_PUTTY_KEY = lazy_pattern(
    r"Private-Lines: \d+\r?\n(?P<secret>(?:[A-Za-z0-9+/=]+\s*)+?)(?=Private-MAC|$)"
)
_ANSIBLE_VAULT = lazy_pattern(
    r"\$ANSIBLE_VAULT;[^\n]*\n(?P<secret>(?:[ \t]*[0-9a-f]{2,}[ \t]*\r?\n?)+)"
)
_MINISIGN_KEY = lazy_pattern(r"secret key\r?\n(?P<secret>RWR[A-Za-z0-9+/]{40,}={0,2})")
_MANIFEST_START = lazy_pattern(r"(?m)^(?:---|[ \t]*- apiVersion:)")
_SECRET_KIND = lazy_pattern(r"[\"']?kind[\"']?\s*:\s*[\"']?Secret\b")
_YAML_DATA = lazy_pattern(
    r"(?m)^(?P<indent>[ \t]*)(?:- )?(?:data|stringData):[ \t]*\n"
    r"(?P<body>(?:(?P=indent)[ \t]+\S.*(?:\n|$)|[ \t]*\n)+)"
)
_YAML_VALUE = lazy_pattern(
    r"(?m)^[ \t]+[\w.\"'-]+:[ \t]*(?P<secret>[^\s|>][^\n]*|[|>][^\n]*\n(?:[ \t]{4,}\S[^\n]*\n?)+)"
)
_JSON_DATA = lazy_pattern(r"\"(?:data|stringData)\"\s*:\s*\{(?P<body>[^{}]{0,100000})\}")
_JSON_VALUE = lazy_pattern(r":\s*\"(?P<secret>(?:[^\"\\]|\\.)+)\"")


def block_spans(text: str) -> Iterator[SecretSpan]:
    yield from _key_body_spans(text)
    for mark, pattern, name in (
        ("Private-Lines:", _PUTTY_KEY, "private-key"),
        ("$ANSIBLE_VAULT", _ANSIBLE_VAULT, "ansible-vault"),
        ("secret key", _MINISIGN_KEY, "private-key"),
    ):
        if mark in text:
            yield from ((*found.span("secret"), name) for found in pattern.finditer(text))
    if "Secret" in text and _SECRET_KIND.search(text):
        yield from _manifest_spans(text)


def _key_body_spans(text: str) -> Iterator[SecretSpan]:
    """Parts of a private key without its first or last line."""
    found: list[tuple[int, int]] = []
    if any(mark in text for mark in _KEY_BASE64_PREFIXES):
        found += (match.span() for match in _KEY_START.finditer(text))
    if "PRIVATE KEY" in text:
        found += ((_body_start(text, end.start()), end.start()) for end in _KEY_END.finditer(text))
    if any(len(line.strip()) in _KEY_WIDTHS for line in text.split("\n")):
        found += (m.span() for m in _KEY_BODY.finditer(text) if not _HEX_DIGEST.match(m.group()))
    if not found:
        return
    public = [match.span() for match in PUBLIC_BLOCK.finditer(text)]
    for start, end in found:
        if not any(first <= start < last for first, last in public):
            yield start, start + len(text[start:end].rstrip()), "private-key"


def _body_start(text: str, end: int) -> int:
    """The start of the lines of the key that ends here."""
    start = end
    while start:
        line = text.rfind("\n", 0, start - 1) + 1
        if not _KEY_LINE.fullmatch(text[line:start].strip()):
            break
        start = line
    return start


def _manifest_spans(text: str) -> Iterator[SecretSpan]:
    """Every value below `data` or `stringData` of a Kubernetes Secret."""
    starts = [0, *(match.start() for match in _MANIFEST_START.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if _SECRET_KIND.search(text, start, end):
            for block, value in ((_YAML_DATA, _YAML_VALUE), (_JSON_DATA, _JSON_VALUE)):
                for body in block.finditer(text, start, end):
                    for found in value.finditer(text, *body.span("body")):
                        yield *found.span("secret"), "kubernetes-secret"
