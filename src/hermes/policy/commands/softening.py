"""Looking with a privilege is still looking, as long as what is looked at is harmless."""

from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import UNKNOWN, foreign
from hermes.policy.commands.values import PLAIN

_PRIVATE = ("/root", "/home", "~")


def soften(call: Call) -> None:
    """Say what borrowed rights are used for: `sudo journalctl` looks, `sudo cat $X` does not."""
    if not call.borrowed:
        return
    looks = frozenset(call.effects) <= PLAIN and call.peeled is None and call.guarded
    hidden = any(foreign(word) for word in call.argv)
    if looks and not hidden and not any(_private(one, call) for one in call.contents):
        call.mark("read-as-root", call.borrowed)
    else:
        call.mark("privilege", call.borrowed)


def _private(path: str, call: Call) -> bool:
    if UNKNOWN.search(path) or not path.startswith("/"):
        return True
    words = {word for word in call.argv if word.startswith("/")}
    relative = not any(path.startswith(word.rstrip("/")) for word in words)
    return relative or path.startswith(_PRIVATE)
