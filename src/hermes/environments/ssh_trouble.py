"""What OpenSSH says when something is wrong, in words that tell what to do."""

import re

from hermes.core.errors import PlaceFailed

_OFFENDING = re.compile(r"Offending [\w-]+ key in (.+?):(\d+)")
_UNREACHABLE = re.compile(
    r"connection refused|timed out|no route to host|network is unreachable|could not resolve|"
    r"name or service not known|host is down|connection reset|closed by",
    re.IGNORECASE,
)


def connect_trouble(target: str, host: str, complaint: str) -> PlaceFailed:
    """`host` is how known_hosts names it."""
    if "IDENTIFICATION HAS CHANGED" in complaint or "Host key verification failed" in complaint:
        return _changed(target, host, complaint)
    if "Permission denied" in complaint or "Too many authentication failures" in complaint:
        return PlaceFailed(
            f"{target} refused to let us in: is the public half of terminal.ssh_key "
            "(TERMINAL_SSH_KEY) in the account's authorized_keys, is the key without a "
            "passphrase or held by an agent, is the account there and not locked (`passwd -S`)? "
            f"ssh said: {_last(complaint)}"
        )
    if "bad permissions" in complaint or "UNPROTECTED PRIVATE KEY" in complaint:
        return PlaceFailed(f"others may read terminal.ssh_key, so ssh will not use it: {complaint}")
    if _UNREACHABLE.search(complaint):
        return PlaceFailed(
            f"{target} cannot be reached: is it up, and are terminal.ssh_host and "
            f"terminal.ssh_port right? ssh said: {_last(complaint)}"
        )
    return PlaceFailed(f"cannot connect to {target}: {complaint or 'ssh did not say why'}")


def _changed(target: str, host: str, complaint: str) -> PlaceFailed:
    found = _OFFENDING.search(complaint)
    if found is None:
        return PlaceFailed(
            f"the host key of {target} could not be verified, so we do not connect: {complaint}"
        )
    file, line = found.groups()
    return PlaceFailed(
        f"the host key of {target} has CHANGED, so we do not connect: somebody may be listening "
        f"in, or the machine was set up anew. Ask who runs it; if it is right, remove the old key "
        f"in {file}, line {line}: ssh-keygen -R '{host}' -f '{file}'"
    )


def _last(complaint: str) -> str:
    lines = [line for line in complaint.splitlines() if not line.startswith("Warning: Permanently")]
    return lines[-1].strip() if lines else "nothing"
