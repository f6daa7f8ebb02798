"""What the text of an alert names is checked, also where there are more probes than checks."""

from pathlib import Path

import pytest
from probe_house import Pages, this_host, web_server

from hermes.core.incident import IncidentDetails
from hermes.sre.checks import (
    MAX_CHECKS,
    ProbeChecks,
    named_first,
    open_independent_checks,
    page_probes,
)
from hermes.sre.probes.probe import Probe


def pages(count: int) -> list[Probe]:
    return [
        Probe(
            name=f"http-{8000 + number}-health",
            kind="http",
            what=f"http://127.0.0.1:{8000 + number}/health",
            service="shop",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "http-8030-health fails",
        "status 500 from http://127.0.0.1:8030/health, for users of shop",
        "see http://127.0.0.1:8030/health.",
    ],
)
@pytest.mark.anyio
async def test_a_probe_that_the_text_names_is_not_cut_off(tmp_path: Path, text: str) -> None:
    details = IncidentDetails(incident="i", run="r", title="shop fails", text=text, service="shop")
    async with this_host(tmp_path) as environment:
        checks = await open_independent_checks(details, environment, pages(40))
    assert isinstance(checks, ProbeChecks)
    assert len(checks.probes) == MAX_CHECKS
    assert checks.probes[0].name == "http-8030-health"


def test_a_longer_name_is_another_one() -> None:
    probes = [Probe(name="other", kind="command", what="true"), *pages(1)]
    assert named_first("http-8000-health-old and http-8000-healthy", probes)[0].name == "other"


NGINX_ERROR = (
    'open() "/srv/www/static/hello.html" failed (13: Permission denied), client: 127.0.0.1, '
    'server: localhost, request: "GET /static/hello.html HTTP/1.1", host: "127.0.0.1"'
)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (f"lines of /var/log/nginx/error.log report errors; {NGINX_ERROR}", "/static/hello.html"),
        ("/var/log/shop.log: 20:22:39 ERROR /items: FileNotFoundError: '/srv/c.json'", "/items"),
    ],
)
def test_a_page_that_a_log_names_gets_a_probe(text: str, page: str) -> None:
    probes = page_probes(text, pages(1))
    assert [each.what for each in probes] == [f"http://127.0.0.1:8000{page}"]


@pytest.mark.parametrize(("status", "checked"), [(500, True), (403, True), (404, False)])
@pytest.mark.anyio
async def test_only_a_page_that_a_server_refuses_now_is_checked(
    tmp_path: Path, status: int, checked: bool
) -> None:
    answers = Pages()
    answers.status = status
    details = IncidentDetails(
        incident="i", run="r", title="log", text="ERROR /items: KeyError", service="shop"
    )
    with web_server(answers) as port:
        known = Probe(name="shop", kind="http", what=f"http://127.0.0.1:{port}/", service="shop")
        async with this_host(tmp_path) as environment:
            checks = await open_independent_checks(details, environment, [known])
    assert isinstance(checks, ProbeChecks)
    assert (f"http://127.0.0.1:{port}/items" in [e.what for e in checks.probes]) == checked


@pytest.mark.parametrize(("behind", "checked"), [(200, True), (500, False)])
@pytest.mark.anyio
async def test_a_proxy_that_fails_a_page_of_a_healthy_service_is_checked(
    tmp_path: Path, behind: int, checked: bool
) -> None:
    """Where the service fails as well, its own check shows the fault."""
    front, back = Pages(), Pages()
    front.status, back.status = 504, behind
    details = IncidentDetails(incident="i", run="r", title="no reports from shop", service="shop")
    with web_server(front) as front_port, web_server(back) as back_port:
        probes = [
            Probe(
                name=f"http-{port}{page.replace('/', '-')}",
                kind="http",
                what=f"http://127.0.0.1:{port}{page}",
                service=service,
                status="<400",
            )
            for port, service in ((back_port, "shop"), (front_port, "nginx"))
            for page in ("/report", "/other" if service == "nginx" else "/own")
        ]
        async with this_host(tmp_path) as environment:
            checks = await open_independent_checks(details, environment, probes)
    assert isinstance(checks, ProbeChecks)
    names = [each.name for each in checks.probes]
    assert (f"http-{front_port}-report" in names) == checked
    assert f"http-{front_port}-other" not in names
