"""The Apprise channel: it sends to all addresses in APPRISE_URLS, and receives nothing.

The library says only whether a service took a message; why not is in its log, from which the status
is read. It blocks, so it runs in a thread.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.to_thread import run_sync
from apprise import Apprise, AppriseAttachment, NotifyFormat

from hermes.core.channels import InboundMessage, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.files import read_outgoing_file
from hermes.gateway.channels.hidden_secrets import secrets_hidden_in_logs
from hermes.gateway.settings import AppriseSettings

URLS_VARIABLE = "APPRISE_URLS"
RETRY_AFTER_S = 60.0
"""What a service asks for is not passed on by the library."""
MAX_REMEMBERED = 1_000
"""Messages of which is known which addresses have them."""
MIN_SECRET_CHARS = 8
PERMANENT_STATUSES = frozenset({400, 401, 403, 404, 405, 410, 413})
TOO_MANY_REQUESTS = 429
LIBRARY_LOGGER = "apprise"
LOGGERS = (LIBRARY_LOGGER, "urllib3.connectionpool", "requests")
_STATUS = re.compile(r"error=(\d{3})")
_SEPARATORS = re.compile(r"[\s/@:?&=,]+")


def open_channel(settings: AppriseSettings, secrets: Mapping[str, str]) -> "AppriseChannel":
    return AppriseChannel(secrets[URLS_VARIABLE])


class AppriseChannel:
    """`urls` are the addresses of services, with spaces or commas between them."""

    def __init__(self, urls: str, *, name: str = "apprise") -> None:
        self.name = name
        self._urls = re.split(r"[\s,]+(?=[a-z0-9]+://)", urls.strip())
        self._services: list[Any] = []
        self._taken: OrderedDict[str, set[int]] = OrderedDict()
        self._sending = anyio.Lock()
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        secrets = [part for url in self._urls for part in _secret_parts(url)]
        self._stack.enter_context(secrets_hidden_in_logs(secrets, LOGGERS))
        # The library loads all its services with the first address: a second or two.
        self._services = await run_sync(_open_services, self._urls)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._stack.close()

    def listen(self) -> AsyncIterator[InboundMessage]:
        return _receive_nothing()

    async def send(self, message: OutgoingMessage) -> str:
        for path in message.files:
            await read_outgoing_file(path)  # says what is wrong with it
        failures: list[DeliveryError] = []
        async with self._sending:  # the log of the library is read meanwhile
            taken = self._addresses_with(message.key)
            for number, service in enumerate(self._services):
                if number in taken:
                    continue
                failure = await run_sync(partial(_notify, service, message))
                if failure is None:
                    taken.add(number)
                else:
                    failures.append(failure)
        if failures:
            raise next((each for each in failures if not each.permanent), failures[0])
        return message.key

    def _addresses_with(self, key: str) -> set[int]:
        """Those that took the message at an earlier attempt: they do not get it twice."""
        taken = self._taken.setdefault(key, set())
        self._taken.move_to_end(key)
        while len(self._taken) > MAX_REMEMBERED:
            self._taken.popitem(last=False)
        return taken


async def _receive_nothing() -> AsyncIterator[InboundMessage]:
    await anyio.sleep_forever()
    for nothing in list[InboundMessage]():
        yield nothing


def _open_services(urls: Sequence[str]) -> list[Any]:
    """Raises `ChannelFailed`, without the address: it holds secrets."""
    services = []
    for number, url in enumerate(urls, 1):
        service = Apprise()
        if not service.add(url):
            text = f"address {number} in {URLS_VARIABLE} is not one that Apprise understands"
            raise ChannelFailed(text, permanent=True)
        services.append(service)
    return services


def _notify(service: Any, message: OutgoingMessage) -> DeliveryError | None:
    """Runs in a thread. Why it failed; None when the service took it."""
    files = AppriseAttachment()
    for path in message.files:
        files.add(Path(path).absolute().as_uri())
    name = str(service[0].service_name)
    with _collected_statuses() as statuses:
        taken = service.notify(
            body=message.text, body_format=NotifyFormat.TEXT, attach=files if files else None
        )
    return None if taken else _explain(name, statuses)


def _explain(name: str, statuses: Sequence[int]) -> DeliveryError:
    status = statuses[-1] if statuses else 0
    if not status:
        return DeliveryError(f"{name} could not be reached", may_have_arrived=True)
    text = f"{name} answered {status}"
    if status == TOO_MANY_REQUESTS:
        return DeliveryError(text, retry_after_s=RETRY_AFTER_S)
    if status in PERMANENT_STATUSES:
        return DeliveryError(f"{text}; compare {URLS_VARIABLE}", permanent=True)
    return DeliveryError(text, may_have_arrived=True)


class StatusCollector(logging.Handler):
    """Collects the statuses that the library logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.statuses: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = _STATUS.search(record.getMessage())
        if found is not None:
            self.statuses.append(int(found[1]))


@contextmanager
def _collected_statuses() -> Iterator[Sequence[int]]:
    collector, logger = StatusCollector(), logging.getLogger(LIBRARY_LOGGER)
    logger.addHandler(collector)
    try:
        yield collector.statuses
    finally:
        logger.removeHandler(collector)


def _secret_parts(url: str) -> list[str]:
    """Each service keeps its token at another place of the address."""
    parts = _SEPARATORS.split(url.partition("://")[2])
    return [url, *(each for each in parts if len(each) >= MIN_SECRET_CHARS)]
