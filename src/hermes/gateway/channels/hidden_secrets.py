"""Keeps the tokens of channels out of error texts and logs.

Client libraries put them there: the address of every Telegram call contains the bot token, and
httpx logs each address.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

HIDDEN = "[token]"


def hide_secrets(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text


class SecretFilter(logging.Filter):
    """Replaces secrets in the messages of one logger, with their arguments filled in."""

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        hidden = hide_secrets(text, self._secrets)
        if hidden != text:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            # The text of an exception is formatted later, where no filter sees it.
            record.msg = f"{hidden} ({record.exc_info[0].__name__ if record.exc_info[0] else ''})"
            record.args, record.exc_info = (), None
        return True


@contextmanager
def secrets_hidden_in_logs(secrets: Sequence[str], loggers: Sequence[str]) -> Iterator[None]:
    """A filter of a logger does not see the records of its children: name each of them."""
    added = SecretFilter(secrets)
    for name in loggers:
        logging.getLogger(name).addFilter(added)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeFilter(added)
