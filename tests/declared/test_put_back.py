"""Reverted changes are put back as they were: content, owner, mode, links and folders."""

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.declared.experiments.put_back import (
    CannotRevertError,
    archive_script,
    find_targets,
    reverted_changes,
    split_revertible,
    text_parts_of,
)
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import LENGTH, Item, ItemId, StateChange
from hermes.declared.store import StateStore


def file_item(digest: str, mode: str = "644") -> Item:
    return Item(digest, {"type": "file", "mode": mode, "uid": "0", "gid": "0"})


def revert(path: str, before: Item | None, after: Item | None) -> Revert:
    return Revert(suspect=Suspect(change=StateChange(ItemId("file", path), before, after)))


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "states")


def test_a_file_a_link_and_a_removed_file_are_put_back(store: StateStore, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "added").write_text("x")
    (root / "changed").write_text("new")
    old = store.keep(b"old")
    reverts = [
        revert(f"{root}/added", None, file_item(store.keep(b"x"))),
        revert(f"{root}/changed", file_item(old, "600"), file_item(store.keep(b"new"))),
        revert(f"{root}/gone/file", file_item(old), None),
        revert(f"{root}/link", Item("", {"type": "link", "link": "changed"}), None),
    ]
    targets = [target for each in reverts for target in find_targets(each, store.content)]
    script, archive = archive_script(targets)
    script = script.replace("--numeric-owner", "--no-same-owner")
    subprocess.run(["sh", "-c", script], input=archive, check=True)
    assert not (root / "added").exists()
    assert (root / "changed").read_text() == "old"
    assert (root / "changed").stat().st_mode & 0o777 == 0o600
    assert (root / "gone/file").read_text() == "old"
    assert (root / "link").readlink() == Path("changed")


def test_a_folder_that_exists_only_gets_its_owner_and_mode(store: StateStore) -> None:
    before = Item("", {"type": "folder", "mode": "755", "uid": "7", "gid": "7"})
    after = Item("", {"type": "folder", "mode": "750", "uid": "0", "gid": "0"})
    targets = find_targets(revert("/var/lib/x", before, after), store.content)
    script, _ = archive_script(targets)
    assert script.splitlines()[1:] == [
        "chown -h 7:7 /var/lib/x",
        "[ -L /var/lib/x ] || chmod 755 /var/lib/x",
    ]


def test_a_file_of_which_only_the_digest_is_known_cannot_be_reverted(store: StateStore) -> None:
    change = revert("/etc/key", file_item("unknown"), file_item(store.keep(b"new")))
    with pytest.raises(CannotRevertError, match="only the digest"):
        find_targets(change, store.content)


def test_single_lines_are_reverted_with_a_content_of_their_own(store: StateStore) -> None:
    before, after = store.keep(b"a\nb\nc\n"), store.keep(b"A\nb\nC\n")
    whole = revert("/etc/x", file_item(before), file_item(after))
    assert len(text_parts_of(whole.suspect.change, store.content)) == 2
    part = Revert(suspect=whole.suspect, parts=(1,))
    (change,) = reverted_changes(part, store)
    assert change.before is not None
    assert store.content(change.before.digest) == b"A\nb\nc\n"


def test_a_certificate_is_reverted_as_a_whole() -> None:
    lines = [f"line {number}" for number in range(20)]
    old, new = "\n".join(lines), "\n".join(["text", *lines[1:-1], "other"])
    contents = {"a": old.encode(), "b": new.encode()}
    change = StateChange(ItemId("file", "/etc/x.crt"), Item("a"), Item("b"))
    assert len(text_parts_of(change, contents.get)) == 2
    contents = {key: b"-----BEGIN CERTIFICATE-----\n" + text for key, text in contents.items()}
    assert text_parts_of(change, contents.get) == ()


def test_a_certificate_stays_beside_a_changed_key_that_is_not_kept(store: StateStore) -> None:
    old, new = (store.keep(b"-----BEGIN CERTIFICATE-----\n" + each) for each in (b"a", b"b"))
    text = store.keep(b"port = 1\n"), store.keep(b"port = 2\n")
    reverts = {
        path: revert(path, file_item(before), file_item(after)).suspect
        for path, before, after in (
            ("/etc/tls/shop.crt", old, new),
            ("/etc/tls/shop.key", "digest-1", "digest-2"),
            ("/etc/tls/shop.conf", *text),
            ("/etc/ca/root.crt", old, new),
        )
    }
    usable, lost = split_revertible(list(reverts.values()), store.content)
    assert [each.paths[0] for each in usable] == ["/etc/tls/shop.conf", "/etc/ca/root.crt"]
    assert [each.paths[0] for each in lost] == ["/etc/tls/shop.crt", "/etc/tls/shop.key"]


@pytest.mark.parametrize("differing", ["mode", "length"])
def test_what_a_link_names_is_not_changed_in_place_of_the_file(
    store: StateStore, tmp_path: Path, differing: str
) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "file"
    elsewhere.write_text("other\n")
    mode = elsewhere.stat().st_mode
    path.symlink_to(elsewhere)
    before, after = file_item("d1", "600"), file_item("d1")
    if differing == "length":
        before, after = (Item("", {**before.attributes, LENGTH: each}) for each in "19")
    targets = find_targets(revert(str(path), before, after), store.content)
    script, _ = archive_script([replace(each, uid=None) for each in targets])
    subprocess.run(["sh", "-c", script], check=True)
    assert (elsewhere.read_text(), elsewhere.stat().st_mode) == ("other\n", mode)
