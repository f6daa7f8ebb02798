"""The next version of a skill that a new one is nearly the same as: what it was for, and more."""

import shutil
from pathlib import Path

import msgspec
import yaml

from hermes.skills.history import copy_skill
from hermes.skills.library import Skill
from hermes.skills.lifecycle.likeness import deeds
from hermes.skills.playbook.reading import FILE, read_playbook
from hermes.skills.playbook.schema import Playbook

MOST_WORDS = 40


def extend_folder(old: Skill, new: Path, target: Path) -> None:
    """`target` gets the old skill with what the new one adds; `new` is used up.

    The same deeds: the old playbook, found by more alerts. Other deeds: the new playbook, found by
    the alerts of both; the old one stays the parent, and what is in use, until the gate is passed.
    """
    fresh = target.with_name(f".{target.name}.extended")
    shutil.rmtree(fresh, ignore_errors=True)
    copy_skill(old.folder, fresh)
    text = (new / FILE).read_text("utf-8") if (new / FILE).is_file() else ""
    playbook, _ = read_playbook(text) if text else (None, [])
    if playbook is not None and old.playbook is not None:
        same = deeds(playbook) == deeds(old.playbook)
        kept = _with_words(old.playbook, playbook) if same else _with_words(playbook, old.playbook)
        (fresh / FILE).write_text(_text(kept), encoding="utf-8")
    _add_case(new, fresh)
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def _with_words(kept: Playbook, other: Playbook) -> Playbook:
    words = tuple(dict.fromkeys((*kept.signature.words, *other.signature.words)))[:MOST_WORDS]
    alert = tuple(dict.fromkeys((*kept.signature.alert, *other.signature.alert)))
    if not (kept.signature.alert and other.signature.alert):
        alert = ()  # one of them may be meant by any alert
    signature = msgspec.structs.replace(kept.signature, words=words, alert=alert)
    return msgspec.structs.replace(kept, signature=signature)


def _text(playbook: Playbook) -> str:
    plain = msgspec.to_builtins(playbook, str_keys=True)
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=96)


def _add_case(new: Path, target: Path) -> None:
    cases = target / "cases"
    cases.mkdir(exist_ok=True)
    number = len(list(cases.iterdir())) + 1
    origin = new / "cases" / "origin.json"
    if origin.is_file():
        shutil.copy2(origin, cases / f"extended-{number}.json")
