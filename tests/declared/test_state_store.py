"""States, their comparison and their store."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.declared.collectors.host_program import (
    MAX_DIGEST_BYTES,
    READ_BYTES,
    digest_file,
    read_file,
)
from hermes.declared.collectors.readers import MAX_READ_BYTES, LocalReader
from hermes.declared.packs import MAX_CONTENT_BYTES
from hermes.declared.state import Item, ItemId, State, compare
from hermes.declared.store import StateStore, StoreLimits, UnknownStateError

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def file_item(digest: str, *, changed: datetime | None = None, **attributes: str) -> Item:
    stamp = f"1:1:1:{int(changed.timestamp() * 1e9)}" if changed else ""
    return Item(digest, {"mode": "644", **attributes, **({"stamp": stamp} if stamp else {})})


def state(items: dict[str, Item], *, at: datetime = NOON, left_out: tuple[str, ...] = ()) -> State:
    found = {ItemId("file", path): item for path, item in items.items()}
    return State(host="web", at=at, source="known-good", items=found, left_out=left_out)


def test_a_comparison_says_what_was_added_removed_and_changed_and_when() -> None:
    later = NOON + timedelta(hours=1)
    edited = NOON + timedelta(minutes=5)
    before = state({"/etc/a": file_item("1"), "/etc/b": file_item("1"), "/etc/c": file_item("1")})
    after = state(
        {
            "/etc/a": file_item("2", changed=edited),
            "/etc/b": file_item("1"),
            "/etc/d": file_item(""),
        },
        at=later,
    )
    changes = compare(before, after)
    assert [(each.item.key, each.verb) for each in changes] == [
        ("/etc/a", "changed"),
        ("/etc/c", "removed"),
        ("/etc/d", "added"),
    ]
    assert changes[0].at == edited
    assert changes[0].differing == ("content",)


def test_a_clock_that_jumped_gives_no_time_rather_than_a_wrong_one() -> None:
    before = state({"/etc/a": file_item("1")})
    after = state(
        {"/etc/a": file_item("2", changed=NOON - timedelta(days=900))},
        at=NOON - timedelta(days=900),
    )
    (change,) = compare(before, after)
    assert change.at is None


def test_mode_and_owner_are_compared_and_times_are_not() -> None:
    before = state({"/etc/a": file_item("1", changed=NOON), "/etc/b": file_item("1", uid="0")})
    touched = file_item("1", changed=NOON + timedelta(minutes=1))
    after = state({"/etc/a": touched, "/etc/b": file_item("1", uid="33")})
    (change,) = compare(before, after)
    assert change.item.key == "/etc/b"
    assert change.differing == ("uid",)


def test_what_one_state_left_out_is_not_a_change() -> None:
    before = state({"/srv/data/a": file_item("1"), "/srv/databases": file_item("1")})
    after = state({}, left_out=("/srv/data: more than 5,000 entries",))
    assert [each.item.key for each in compare(before, after)] == ["/srv/databases"]


def test_content_of_a_file_that_changes_constantly_is_not_compared() -> None:
    before = state({"/etc/a": file_item("1", size="3"), "/etc/b": file_item("1", size="3")})
    after = state(
        {
            "/etc/a": file_item("2", size="4", volatile="yes"),
            "/etc/b": Item("2", {"mode": "600", "size": "4", "volatile": "yes"}),
        }
    )
    assert [each.item.key for each in compare(before, after)] == ["/etc/b"]


def test_a_file_that_a_service_merely_names_now_is_not_new() -> None:
    old = file_item("1", changed=NOON - timedelta(days=3), named="yes")
    new = file_item("1", changed=NOON + timedelta(minutes=1), named="yes")
    after = state({"/var/lib/x/old": old, "/var/lib/x/new": new}, at=NOON + timedelta(hours=1))
    assert [each.item.key for each in compare(state({}), after)] == ["/var/lib/x/new"]


def test_a_state_and_its_content_come_back(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "states")
    digest = store.keep(b"listen 8080\n")
    saved = state({"/etc/a": file_item(digest)}, left_out=("/srv/x: too many entries",))
    id = store.save(saved)
    again = StateStore(tmp_path / "states")
    assert again.latest("web") == saved == again.load(id) == again.load(id[:6])
    assert again.latest("db") is None
    assert again.latest("web", "live") is None
    assert again.content(digest) == b"listen 8080\n"
    assert again.content("00" * 32) is None
    kept = [each.relative_to(tmp_path) for each in tmp_path.rglob("*") if each.is_file()]
    assert all((tmp_path / each).stat().st_mode & 0o777 == 0o600 for each in kept)
    assert (tmp_path / "states").stat().st_mode & 0o777 == 0o700


def test_of_large_content_only_the_digest_is_kept(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    large, small = store.keep(b"x" * (MAX_CONTENT_BYTES + 1)), store.keep(b"x" * MAX_CONTENT_BYTES)
    store.flush()
    assert store.content(large) is None
    assert StateStore(tmp_path).content(small) == b"x" * MAX_CONTENT_BYTES


def test_a_state_cut_off_half_way_is_listed_as_damaged_and_ignored(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    first = state({"/etc/a": file_item("11")})
    store.save(first)
    id = store.save(state({"/etc/a": file_item("22")}))
    path = next(tmp_path.glob(f"{id}.*"))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert store.latest("web") == first
        damaged, good = store.stored_states()
        assert damaged.damaged and damaged.id == id
        assert not good.damaged and good.items == 1
        with pytest.raises(UnknownStateError, match="damaged"):
            store.load(id)
    path.write_bytes(bytes([*whole[:-1], whole[-1] ^ 1]))
    assert store.latest("web") == first
    store.delete(id)
    assert [each.damaged for each in store.stored_states()] == [""]


def test_a_damaged_pack_loses_its_content_only(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    digest = store.keep(b"one")
    store.save(state({"/etc/a": file_item(digest)}))
    (pack,) = (tmp_path / "content").glob("*.pack")
    whole = pack.read_bytes()
    for length in range(len(whole)):
        pack.write_bytes(whole[:length])
        cut = StateStore(tmp_path)
        assert cut.content(digest) is None
        assert cut.latest("web") is not None
    again = StateStore(tmp_path)
    assert again.keep(b"one") == digest
    again.flush()
    assert StateStore(tmp_path).content(digest) == b"one"


def test_old_states_go_and_their_content_with_them(tmp_path: Path) -> None:
    store = StateStore(tmp_path, StoreLimits(states=3))
    common = store.keep(b"common")
    digests = []
    for number in range(8):
        digests.append(store.keep(b"content %d" % number))
        items = {"/etc/a": file_item(digests[-1]), "/etc/b": file_item(common)}
        store.save(state(items, at=NOON - timedelta(days=number)))
    assert len(list(store.stored_states())) == 3
    again = StateStore(tmp_path)
    assert [again.content(each) is None for each in digests] == [True] * 5 + [False] * 3
    assert again.content(common) == b"common"
    latest = again.latest("web")
    assert latest is not None
    assert latest.items[ItemId("file", "/etc/a")].digest == digests[-1], "order is not by the clock"


def test_the_size_limit_removes_the_oldest_states_but_never_the_newest(tmp_path: Path) -> None:
    store = StateStore(tmp_path, StoreLimits(states=50, size_mb=1))
    for _ in range(8):
        noise = store.keep(os.urandom(250_000))
        store.save(state({"/etc/a": file_item(noise), "/etc/b": file_item("")}))
    kept = list(store.stored_states())
    assert 1 <= len(kept) < 8
    newest = StateStore(tmp_path).latest("web")
    assert newest is not None
    assert all(
        store.content(item.digest) is not None for item in newest.items.values() if item.digest
    )


@pytest.mark.anyio
async def test_only_a_part_of_the_contents_of_a_host_is_held_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * MAX_CONTENT_BYTES)
    wanted = {str(path): MAX_CONTENT_BYTES for path in paths}
    answers = 0
    while wanted:
        found = await LocalReader().read_files(list(wanted.items()), [], MAX_CONTENT_BYTES)
        held = sum(len(content or b"") for content in found.contents.values())
        assert 0 < held <= MAX_READ_BYTES + MAX_CONTENT_BYTES
        assert [int(Path(path).name) for path in found.contents] == [
            (content or b"")[0] for content in found.contents.values()
        ]
        wanted = {path: size for path, size in wanted.items() if path not in found.contents}
        answers += 1
    assert answers > 2


def test_the_digest_of_a_file_is_that_of_its_content_up_to_a_length(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for size in (0, 1, READ_BYTES, READ_BYTES + 1, 3 * READ_BYTES):
        content = os.urandom(size)
        file.write_bytes(content)
        assert digest_file(str(file)) == hashlib.sha256(content).hexdigest()
        assert read_file(str(file), size) == content
        assert not size or read_file(str(file), size - 1) is None
    os.truncate(file, MAX_DIGEST_BYTES + 1)
    assert digest_file(str(file)) == ""
    (tmp_path / "link").symlink_to(file)
    assert digest_file(str(tmp_path / "link")) == ""
    assert read_file(str(tmp_path), 10) is None
