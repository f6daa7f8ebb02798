"""The dashboard of an application: all pages, with everything behind them."""

from collections.abc import Sequence

from hermes.app.web.pages.approvals import JournalApprovals
from hermes.app.web.pages.incidents import JournalIncidents
from hermes.app.web.pages.journal_index import JournalIndex
from hermes.app.web.pages.overview import JournalOverview, JournalStatus
from hermes.memory.store import JournalStore
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.web.pages import PageSet
from hermes.web.pages.approvals import approval_pages
from hermes.web.pages.dashboard import Dashboard
from hermes.web.pages.incidents import incident_pages
from hermes.web.pages.overview import overview_pages


def dashboard_routes(loaded: LoadedSettings, journal: JournalStore) -> list[HttpRoute]:
    """The routes of all pages, forms and files."""
    index = JournalIndex(loaded, journal)
    status = JournalStatus(loaded, journal, index)
    sets = page_sets(loaded, journal, index)
    return Dashboard(sets, journal, loaded.settings.web, status).routes()


def page_sets(
    loaded: LoadedSettings, journal: JournalStore, index: JournalIndex
) -> Sequence[PageSet]:
    """All pages. A new one is added here.

    Each line has the pages of `web/pages/NAME.py`, and the class with their data, which is in
    `app/web/pages`.
    """
    return [
        overview_pages(JournalOverview(loaded, journal, index)),
        incident_pages(JournalIncidents(loaded, journal, index)),
        approval_pages(JournalApprovals(loaded, journal, index)),
    ]
