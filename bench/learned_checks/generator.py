"""Twenty healthy services with the irregular behaviour that real services show.

Every service is an endless generator of minutes with its own `random.Random`, so that the same seed
gives the same minutes and a larger `count` continues a smaller one. Planned events (releases, patch
windows, log rotation, batches, a public holiday) are part of what is healthy.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from interface import Service, ServiceMinute
from requested_services import (
    cron_importer,
    edge_proxy,
    mail_queue,
    nightly_report,
    orders_api,
    search_api,
    shop_pages,
    static_files,
    thumbnail_worker,
)
from stateful_services import (
    billing_service,
    catalogue_api,
    chat_gateway,
    geo_lookup,
    intranet_wiki,
    log_shipper,
    orders_db,
    payment_client,
    payroll_portal,
    session_cache,
    status_page,
)


@dataclass(frozen=True)
class _GeneratedService:
    """One service whose minutes come from a generator function."""

    name: str
    seed: int
    generate: Callable[[random.Random, float], Iterator[ServiceMinute]]

    def minutes(self, start: float, count: int) -> Iterator[ServiceMinute]:
        return islice(self.generate(random.Random(f"{self.seed}/{self.name}"), start), count)


_GENERATORS = (
    orders_api, search_api, shop_pages, static_files, edge_proxy, mail_queue,
    thumbnail_worker, nightly_report, cron_importer, orders_db, session_cache,
    billing_service, payment_client, intranet_wiki, catalogue_api, log_shipper,
    payroll_portal, geo_lookup, status_page, chat_gateway,
)  # fmt: skip


def services(seed: int) -> Sequence[Service]:
    """The twenty services for one seed."""
    return [
        _GeneratedService(function.__name__.strip("_").replace("_", "-"), seed, function)
        for function in _GENERATORS
    ]
