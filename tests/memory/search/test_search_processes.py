"""Several processes, killed at any moment: nothing lost, nothing twice."""

import subprocess
import sys
from pathlib import Path
from threading import Thread

import msgspec
from search_home import Home, said

TORTURE = Path(__file__).with_name("search_torture.py")


def test_killed_importers_and_indexers_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(TORTURE), str(tmp_path), "25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    verdict = msgspec.json.decode(done.stdout)
    expected = {"found": 300, "doubled": 0, "indexed": 3000, "anew": 0, "verified": True}
    assert {name: verdict[name] for name in expected} == expected, verdict


def test_two_who_index_at_once_take_turns(tmp_path: Path) -> None:
    first, second = Home(tmp_path), Home(tmp_path)
    first.write(*(said(f"apple {n}") for n in range(3000)))
    found: list[list[str]] = []

    def look(home: Home) -> None:
        found.append(home.texts("apple 2999", limit=1))

    threads = [Thread(target=look, args=(home,)) for home in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["apple 2999"]] * 2
    lines = first.past.ask_blocking(lambda index: index.count_lines())
    assert lines == 3000
    first.past.close()
    second.past.close()
