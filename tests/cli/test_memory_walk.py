"""docs/explanation/one-fact.md, walked again: what it shows is what happens."""

import json
from pathlib import Path

import pytest
from hermes_command import Hermes

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "one-fact.md"
LOG = PAGE.read_text().partition("```text\n")[2].partition("\n```")[0]


def script(folder: Path, name: str, *replies: dict[str, object]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"scripted:{path}"


def test_the_page_tells_what_really_happens(
    hermes: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "error.log").write_text(f"{LOG}\n")
    look = {"id": "a1", "name": "terminal", "arguments": {"command": "tail -n 1 error.log"}}
    first = script(tmp_path, "1", {"calls": [look]}, {"text": "nginx cannot reach its upstream"})
    second = script(tmp_path, "2", {"text": "10.0.0.31:8080"})
    hermes("chat", "-q", "why does the shop answer 502?", "-m", first)
    page = PAGE.read_text()
    found = json.loads(hermes("memory", "list", "--json").stdout)
    assert [fact["id"] for fact in found] == ["fact-294c8a67094e", "fact-8593ce4853d4"]
    for fact in found:
        assert f"{fact['id']}  {fact['memory']}  {fact['trust']}" in page
    hermes("chat", "-q", "which address does nginx forward to?", "-m", second)
    told = hermes("sessions", "show", "latest").stdout
    recalled = [line for line in told.splitlines() if line.startswith("- ")]
    assert recalled[0].partition(", last")[0] in page
    shown = hermes("memory", "show", "294c8a").stdout
    assert LOG in shown
    assert "shown        1 times; then 1 turns answered, 0 failed" in shown
    assert "shown        1 times; then 1 turns answered, 0 failed" in page
