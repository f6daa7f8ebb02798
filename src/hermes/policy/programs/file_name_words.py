"""Names of files that a wildcard turns into words of a client.

A model chooses names of files: `redis-cli -n * info` writes where files `0`, `set` and `x` are in
the folder. What a client sends, no confinement of this host limits.
"""

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORDS,
    GLOB_STAR,
    LIVE_GLOB,
    display_text,
    starts_with_glob,
)
from hermes.policy.commands.tables import ProgramEntry, parse_arguments

_QUERY_CLIENTS = word_set("client redis mongo")
"""Their commands, queries and connections may begin with any character."""
_OTHER_CLIENTS = word_set(
    "ad-hoc curl docker endpoint github http kubectl lookup names remote service service-tool"
    " storage units wget"
)
_LOCAL_PROGRAMS = word_set("git sed awk find")
_CONNECTING_VERBS = word_set("s_client s_time s_server ocsp cmp")


def mark_file_name_words(call: ProgramCall, entry: ProgramEntry) -> None:
    words = call.argv[1:]
    if not any(map(LIVE_GLOB.search, words)) or _stays_on_this_host(call):
        return
    if entry.spec.special in _QUERY_CLIENTS:
        names = [word for word in words if LIVE_GLOB.search(word)]
    elif entry.spec.args in ("runs", "shell"):
        names = list(filter(LIVE_GLOB.search, _words_before_command(call, entry)))
    elif entry.spec.special in _OTHER_CLIENTS or entry.spec.verbs:
        names = [word for word in words if _may_be_any_word(word)]
    else:
        return
    if names:
        what = f"names of files that match {display_text(names[0])}"
        call.dynamic(f"{what} become words of {call.program}")


def _stays_on_this_host(call: ProgramCall) -> bool:
    connects = not _CONNECTING_VERBS.isdisjoint(call.argv)
    return call.program in _LOCAL_PROGRAMS or (call.program == "openssl" and not connects)


def mark_words_before_command(call: ProgramCall, entry: ProgramEntry) -> None:
    """`timeout $x ls`: one of the words that x stands for may be the program."""
    if entry.spec.args in ("runs", "shell") and ANY_WORDS in _words_before_command(call, entry):
        call.dynamic(f"which program {call.program} runs is only known at run time")


def _words_before_command(call: ProgramCall, entry: ProgramEntry) -> list[str]:
    rest = parse_arguments(call.argv[1:], entry.grammar).rest
    return call.argv[1 : len(call.argv) - len(rest)]


def _may_be_any_word(word: str) -> bool:
    """Return whether a name that matches may be an option or another address."""
    if starts_with_glob(word) or (word[:1] == "-" and "=" not in word and LIVE_GLOB.search(word)):
        return True
    return "://" in word and GLOB_STAR in word
