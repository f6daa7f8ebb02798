"""The change that the failing service names, shortly before it failed, is examined first."""

from datetime import UTC, datetime, timedelta

from hermes.declared.experiments.suspects import ServiceContext, rank_suspects, service_reversal
from hermes.declared.state import VOLATILE, Item, ItemId, StateChange

FAILED_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def changed(path: str, *, seconds_before: float = 0, **attributes: str) -> StateChange:
    at = FAILED_AT - timedelta(seconds=seconds_before) if seconds_before else None
    return StateChange(ItemId("file", path), Item("a"), Item("b", attributes), at)


def ranked(*changes: StateChange, **texts: str) -> list[str]:
    service = ServiceContext(names=("web",), texts=texts, first_failure_at=FAILED_AT)
    return [each.change.item.key for each in rank_suspects(changes, service)]


def test_what_an_error_line_names_comes_first() -> None:
    changes = changed("/etc/a.conf"), changed("/srv/b/key.pem"), changed("/etc/c.conf")
    assert ranked(*changes, error="cannot read /srv/b/key.pem: denied")[0] == "/srv/b/key.pem"


def test_a_folder_that_the_unit_names_counts_for_its_files() -> None:
    changes = changed("/opt/other/app.py"), changed("/opt/shop/lib/app.py")
    assert ranked(*changes, unit="WorkingDirectory=/opt/shop/lib")[0] == "/opt/shop/lib/app.py"


def test_a_path_that_only_begins_like_it_does_not_count() -> None:
    changes = changed("/etc/a"), changed("/etc/web-2")
    assert ranked(*changes, unit="ExecStart=/bin/x /etc/ab") == ranked(*changes)


def test_a_change_just_before_the_failure_comes_before_an_old_one() -> None:
    changes = (
        changed("/etc/a.conf", seconds_before=90_000),
        changed("/etc/b.conf", seconds_before=9),
    )
    assert ranked(*changes) == ["/etc/b.conf", "/etc/a.conf"]


def test_a_change_after_the_failure_comes_last() -> None:
    changes = changed("/etc/a.conf", seconds_before=-60), changed("/etc/b.conf")
    assert ranked(*changes) == ["/etc/b.conf", "/etc/a.conf"]


def test_logs_process_files_and_volatile_files_are_no_suspects() -> None:
    changes = (
        changed("/var/log/web/error.log"),
        changed("/run/web.pid"),
        changed("/opt/web/web.pid"),
        changed("/opt/web/counter", **{VOLATILE: "yes"}),
        changed("/home/ann/.bash_history"),
    )
    assert ranked(*changes) == []


def test_a_backup_copy_comes_after_the_file_itself() -> None:
    changes = changed("/etc/web/web.conf.bak"), changed("/etc/web/web.conf")
    assert ranked(*changes, unit="ExecStart=/bin/web /etc/web/web.conf")[0] == "/etc/web/web.conf"


def test_the_failed_service_is_a_symptom_and_a_stopped_one_is_a_suspect() -> None:
    active, failed = Item("", {"active": "active"}), Item("", {"active": "failed"})
    stopped = Item("", {"active": "inactive"})
    changes = (
        StateChange(ItemId("service", "web"), active, failed),
        StateChange(ItemId("service", "cache"), active, stopped),
    )
    assert ranked(*changes) == ["cache"]


def test_reasons_are_given_in_words() -> None:
    service = ServiceContext(
        names=("web",),
        texts={"unit": "ExecStart=/bin/web /etc/web.conf"},
        first_failure_at=FAILED_AT,
    )
    first, *_ = rank_suspects([changed("/etc/web.conf", seconds_before=12)], service)
    assert first.reasons == (
        "named by the unit of the service",
        "belongs to web by its name",
        "changed 12 s before the first failing check",
    )


def test_the_link_that_enables_a_service_belongs_to_the_service() -> None:
    off = Item("", {"active": "inactive", "enabled": "disabled"})
    on = Item("", {"active": "active", "enabled": "enabled"})
    link = "/etc/systemd/system/multi-user.target.wants/stray.service"
    changes = (
        StateChange(ItemId("service", "stray.service"), off, on),
        StateChange(ItemId("file", link), None, Item("", {"type": "link"})),
    )
    assert ranked(*changes) == ["stray.service"]
    assert service_reversal(changes[0]) == ("disable", "stop")


def test_what_a_database_wrote_is_no_suspect_but_its_settings_and_owners_are() -> None:
    folder = "/var/lib/postgresql/15/main"
    owner = StateChange(
        ItemId("file", f"{folder}/base/1"), Item("a", {"uid": "1"}), Item("a", {"uid": "0"})
    )
    changes = changed(f"{folder}/pg_wal/0001"), changed(f"{folder}/postgresql.conf"), owner
    assert sorted(ranked(*changes)) == [f"{folder}/base/1", f"{folder}/postgresql.conf"]


def test_a_pattern_for_the_files_of_a_folder_names_them() -> None:
    changes = changed("/etc/motd"), changed("/etc/rotate.d/shop.conf")
    assert ranked(*changes, settings="for f in /etc/rotate.d/*.conf; do")[0].endswith("shop.conf")
    assert ranked(*changes, settings="/etc/rotate.d/other.conf") == [
        "/etc/motd",
        changes[1].item.key,
    ]
