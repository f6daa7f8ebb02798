"""The dashboard of an application: all pages, with everything behind them."""

from collections.abc import Callable, Sequence

from hermes.app.web.pages.approvals import JournalApprovals
from hermes.app.web.pages.incidents import JournalIncidents
from hermes.app.web.pages.journal_index import JournalIndex
from hermes.app.web.pages.overview import JournalOverview, JournalStatus
from hermes.app.web.views.audit import JournalAudit
from hermes.app.web.views.drills import JournalDrills
from hermes.app.web.views.facts import JournalFacts
from hermes.app.web.views.jobs import JournalJobs
from hermes.app.web.views.services import JournalServices
from hermes.app.web.views.settings import HomeSettings
from hermes.app.web.views.skills import HomeSkills
from hermes.app.web.views.trends import JournalTrends
from hermes.memory.store import JournalStore, open_journal
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.web.pages import PageSet
from hermes.web.pages.approvals import approval_pages
from hermes.web.pages.audit import audit_pages
from hermes.web.pages.dashboard import Dashboard, serve_alone
from hermes.web.pages.drills import drill_pages
from hermes.web.pages.incidents import incident_pages
from hermes.web.pages.memory import memory_pages
from hermes.web.pages.overview import overview_pages
from hermes.web.pages.schedules import schedule_pages
from hermes.web.pages.services import service_pages
from hermes.web.pages.settings import setting_pages
from hermes.web.pages.skills import skill_pages
from hermes.web.pages.trends import trend_pages
from hermes.web.sessions import create_login


def dashboard_routes(loaded: LoadedSettings, journal: JournalStore) -> list[HttpRoute]:
    """The routes of all pages, forms and files."""
    index = JournalIndex(loaded, journal)
    status = JournalStatus(loaded, journal, index)
    sets = page_sets(loaded, journal, index)
    return Dashboard(sets, journal, loaded.settings.web, status).routes()


async def serve_dashboard(loaded: LoadedSettings, person: str, show: Callable[[str], None]) -> None:
    """Serve the dashboard of a home alone, on loopback, until cancelled.

    `show` gets a link that logs the person in. Raises `HttpListenError` and `StoreError`.
    """
    async with open_journal(loaded.store) as journal:
        code, login = create_login(person)
        await journal.append(login)

        def ready(address: str) -> None:
            show(f"{address}/login?code={code}")

        await serve_alone(dashboard_routes(loaded, journal), ready)


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
        service_pages(JournalServices(loaded, journal, index.read_incidents)),
        trend_pages(JournalTrends(journal, index.read_incidents)),
        skill_pages(HomeSkills(loaded, journal)),
        memory_pages(JournalFacts(loaded, journal)),
        drill_pages(JournalDrills(loaded, journal)),
        audit_pages(JournalAudit(loaded, journal)),
        schedule_pages(JournalJobs(loaded, journal)),
        setting_pages(HomeSettings(loaded, journal)),
    ]
