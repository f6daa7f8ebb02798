"""The dashboard of an application: all pages, with everything behind them."""

from collections.abc import Sequence

from hermes.app.web.pages.overview import JournalOverview, JournalStatus
from hermes.memory.store import JournalStore
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.web.pages import PageSet
from hermes.web.pages.dashboard import Dashboard
from hermes.web.pages.overview import overview_pages


def dashboard_routes(loaded: LoadedSettings, journal: JournalStore) -> list[HttpRoute]:
    """The routes of all pages, forms and files."""
    status = JournalStatus(loaded, journal)
    return Dashboard(page_sets(loaded, journal), journal, loaded.settings.web, status).routes()


def page_sets(loaded: LoadedSettings, journal: JournalStore) -> Sequence[PageSet]:
    """All pages. A new one is added here.

    The classes behind the pages are in `app/web/pages`; the pages themselves in `web/pages`.
    """
    # Each line: the pages of `web/pages/NAME.py`, with the class that has their data.
    return [
        overview_pages(JournalOverview(loaded, journal)),
    ]
