"""Code that a database runs for a query without a word of it: behind views and operators.

A read-only session refuses changes of tables, but not functions with effects elsewhere, such as
`pg_reload_conf` or `dblink`. Which functions a view calls is known to the server only, and they run
with the rights of the role that asks. So the decision says what it rests on.
"""

import re
from collections.abc import Iterator, Sequence

from hermes.policy.commands.effects import word_set
from hermes.policy.commands.tables import find_program, parse_arguments
from hermes.policy.programs.client_commands import MYSQL_CLIENTS, PSQL_CLIENTS

_STATEMENT_OPTIONS = ("-c", "--command", "-e", "--execute")
_ROLE_OPTIONS = ("-U", "--username", "-u", "--user")
_MAX_CHARS, _MAX_NESTING = 8_000, 20
_TELLS_ABOUT_ITSELF = word_set("-l --list -V --version")
_ADDRESS_ROLE = re.compile(r"\w+://([^:/@\s]+)[^/@\s]*@|\buser=(\w+)")
_OWN_NAMES = re.compile(r"(\w+)\s+as\s+(?:not\s+|materialized\s+)*\(", re.I)
"""Names that a WITH clause gives to its queries."""
_HIDDEN_TEXT = re.compile(r"/\*.*?\*/|--[^\n]*|'(?:[^']|'')*'", re.S)
_ARGUMENTS = re.compile(r"\((?![^()]*\b(?:select|table)\b)[^()]*\)", re.I)
_RELATIONS = re.compile(
    r"\b(?:from|join|table)\b(.*?)(?=\b(?:where|group|order|having|limit|offset|fetch"
    r"|window|union|except|intersect|select|from|join|inner|left|right|full|cross|natural|on|using"
    r")\b|[();]|\Z)",
    re.I | re.S,
)
_RELATION = re.compile(r"\s*(?:(?:only|lateral)\s+)?([\w\"`.]+)(?![\w\"`.[])", re.I)
_SYSTEM_RELATION = re.compile(
    r"(?:pg_catalog\.|information_schema\.|performance_schema\.|mysql\.|sys\.|pg_)", re.I
)


def describe_stored_functions(program: str, words: Sequence[str]) -> str:
    """Says whose rights the functions have; empty if it reads no relations of users."""
    if program not in PSQL_CLIENTS | MYSQL_CLIENTS or not _reads_relations_of_users(program, words):
        return ""
    role = _role(program, words) or "that it logs in with"
    return f"functions behind views, foreign tables and operators run as the role {role}"


def _reads_relations_of_users(program: str, words: Sequence[str]) -> bool:
    statements = _values(program, words, _STATEMENT_OPTIONS)
    if not statements:  # it reads them from its input, unless it only tells about itself
        return _TELLS_ABOUT_ITSELF.isdisjoint(words)
    text = "\n".join(statements)
    return len(text) > _MAX_CHARS or any(
        not _SYSTEM_RELATION.match(name) for name in _find_relations(text)
    )


def _find_relations(text: str) -> Iterator[str]:
    """The names after FROM, JOIN and TABLE, without functions and names of a WITH clause."""
    plain = _HIDDEN_TEXT.sub(" ", text)
    own = {name.lower() for name in _OWN_NAMES.findall(plain)}
    left, replaced = _MAX_NESTING, 1
    while replaced and left:
        plain, replaced = _ARGUMENTS.subn("[]", plain)
        left -= 1
    for found in _RELATIONS.finditer(plain):
        for part in found[1].split(","):
            relation = _RELATION.match(part)
            if relation and relation[1].lower() not in own:
                yield relation[1]


def _values(program: str, words: Sequence[str], options: tuple[str, ...]) -> list[str]:
    entry = find_program(program)
    return parse_arguments(list(words), entry.grammar).values(*options) if entry else []


def _role(program: str, words: Sequence[str]) -> str:
    named = _values(program, words, _ROLE_OPTIONS) or [
        found[1] or found[2] for word in words if (found := _ADDRESS_ROLE.search(word))
    ]
    return next((each for each in named if re.fullmatch(r"[\w.-]+", each)), "")
