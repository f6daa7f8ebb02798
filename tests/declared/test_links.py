"""A link that leads elsewhere is one change, and what is read through it is none."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.declared.collectors.collect import CollectOptions, collect_state
from hermes.declared.state import Item, ItemId, State, compare
from hermes.declared.store import StateStore
from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostFile, HostLink, HostSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CURRENT, MAIN = "/opt/app/current", "/opt/app/current/main.py"


def state(**items: str) -> State:
    """By the path with `_` for `/`: a link target behind `>`, else the content of a file."""
    found = {}
    for name, text in items.items():
        link = text.startswith(">")
        attributes = {"type": "link", "link": text[1:]} if link else {"type": "file"}
        item = Item("" if link else text, attributes)
        found[ItemId("file", name.replace("_", "/").replace("/py", ".py"))] = item
    return State(host="web-1", at=NOW, items=found)


def changed(before: State, after: State) -> list[str]:
    return [each.item.key for each in compare(before, after)]


def test_what_is_read_through_a_link_that_leads_elsewhere_is_no_change() -> None:
    before = state(_opt_app_current=">releases/2", _opt_app_current_main_py="two")
    after = state(_opt_app_current=">releases/1", _opt_app_current_main_py="one")
    assert changed(before, after) == [CURRENT]


def test_a_file_that_is_known_by_its_real_path_is_not_listed_twice() -> None:
    before = state(
        _opt_app_current=">releases/2",
        _opt_app_current_main_py="a",
        _opt_app_releases_2_main_py="a",
    )
    after = state(_opt_app_current=">releases/2", _opt_app_releases_2_main_py="b")
    assert changed(before, after) == ["/opt/app/releases/2/main.py"]


def test_an_edit_behind_a_link_is_a_change_where_only_the_link_is_known() -> None:
    before = state(_opt_app_current=">releases/2", _opt_app_current_main_py="a")
    after = state(_opt_app_current=">releases/2", _opt_app_current_main_py="b")
    assert changed(before, after) == [MAIN]


def test_a_folder_that_became_a_link_keeps_its_files_as_changes() -> None:
    before = state(_opt_app_current="", _opt_app_current_main_py="a")
    after = state(_opt_app_current=">releases/2")
    assert changed(before, after) == [CURRENT, MAIN]


@pytest.mark.command
@pytest.mark.anyio
@pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason()))
async def test_a_program_behind_a_link_is_recorded_by_its_real_path(tmp_path: Path) -> None:
    unit = "[Service]\nExecStart=/usr/bin/python3 /opt/app/current/main.py\n"
    host = HostSpec(
        name="web-1",
        files=tuple(
            HostFile(path=f"/opt/app/releases/{n}/main.py", text=f"# {n}\n") for n in (1, 2)
        ),
        links=(HostLink(CURRENT, "releases/2"),),
        units=(HostFile(path="app.service", text=unit),),
    )
    store, options = StateStore(tmp_path), CollectOptions(host="web-1")
    async with Box([build_host_plan(host)]) as box:

        async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
            ran = await box.run(script, timeout=60.0, stdin=stdin)
            return ran.code, ran.output.encode()

        before = await collect_state(run, known=None, store=store, options=options)
        assert ItemId("file", CURRENT) in before.items
        assert ItemId("file", "/opt/app/releases/2/main.py") in before.items
        assert ItemId("file", MAIN) not in before.items
        assert (await box.run(f"ln -sfn releases/1 {CURRENT}")).code == 0
        after = await collect_state(run, known=before, store=store, options=options)
    assert [each for each in changed(before, after) if each.startswith("/opt")] == [CURRENT]
