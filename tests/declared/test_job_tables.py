"""Jobs that come and go with a changed table of cron are known for every set of reverts."""

from pathlib import Path

import pytest

from hermes.declared.experiments.host_programs import ScheduledJob
from hermes.declared.experiments.job_tables import end_command, find_table_jobs
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import Item, ItemId, StateChange
from hermes.declared.store import StateStore

TABLE = "/etc/cron.d/shop"


def suspect(store: StateStore, before: str | None, after: str | None, path: str = TABLE) -> Suspect:
    def item(text: str | None) -> Item | None:
        if text is None:
            return None
        return Item(store.keep(text.encode()), {"type": "file", "mode": "644"})

    return Suspect(change=StateChange(ItemId("file", path), item(before), item(after)))


def commands(jobs: tuple[ScheduledJob, ...]) -> list[str]:
    return [each.command for each in jobs]


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path)


def test_a_job_that_was_added_runs_until_its_table_is_reverted(store: StateStore) -> None:
    added = suspect(store, None, "* * * * * root /srv/stray 80\n")
    jobs = find_table_jobs([added], [], store.content)
    assert (commands(jobs.in_force), jobs.gone) == (["/srv/stray 80"], ())
    jobs = find_table_jobs([added], [Revert(suspect=added)], store.content)
    assert (jobs.in_force, commands(jobs.gone)) == ((), ["/srv/stray 80"])


def test_only_lines_that_differ_count_and_the_earlier_one_runs_again(store: StateStore) -> None:
    same, old, new = (f"5 * * * * root /bin/{name}\n" for name in ("same", "old", "new"))
    changed = suspect(store, same + old, same + new)
    assert commands(find_table_jobs([changed], [], store.content).in_force) == ["/bin/new"]
    reverted = find_table_jobs([changed], [Revert(suspect=changed)], store.content)
    assert commands(reverted.in_force) == ["/bin/old"]
    assert commands(reverted.gone) == ["/bin/new"]


def test_one_reverted_line_of_two_leaves_the_other_in_force(store: StateStore) -> None:
    kept = "1 * * * * root /bin/kept\n"
    changed = suspect(store, kept, f"0 * * * * root /bin/one\n{kept}2 * * * * root /bin/two\n")
    jobs = find_table_jobs([changed], [Revert(suspect=changed, parts=(0,))], store.content)
    assert (commands(jobs.in_force), commands(jobs.gone)) == (["/bin/two"], ["/bin/one"])


def test_other_files_have_no_jobs(store: StateStore) -> None:
    other = suspect(store, None, "* * * * * root /srv/stray\n", "/etc/shop.conf")
    assert find_table_jobs([other], [], store.content).in_force == ()


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("/usr/bin/python3 -S /home/www/a.py 80 >> /var/log/a.log 2>&1", r"/www/a\.py 80'"),
        ("/srv/stray 'one word'", "'/srv/stray one word'"),
        ("cd /srv; ./stray", ""),
        ("/srv/stray | logger", ""),
        ("stray", ""),
    ],
)
def test_only_the_program_of_the_job_itself_is_ended(command: str, pattern: str) -> None:
    ended = end_command(ScheduledJob(command=command))
    assert (pattern in ended and "pkill -f -x" in ended) if pattern else not ended
