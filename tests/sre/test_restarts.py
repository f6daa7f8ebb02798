"""Which services a command restarts, and how they are restarted again, under any supervisor."""

import pytest

from hermes.sre.undo import UnitRestart, find_restarts


@pytest.mark.parametrize(
    ("command", "unit", "again"),
    [
        ("systemctl reload nginx", "nginx", "systemctl restart nginx"),
        ("systemctl --no-block restart a.service", "a.service", "systemctl restart a.service"),
        ("supervisorctl -c /srv/s.conf start web:api", "web:api", None),
        ("service nginx restart", "nginx", "service nginx restart"),
        ("docker restart api || true", "api", "docker restart api"),
    ],
)
def test_a_restart_is_found_with_its_command(command: str, unit: str, again: str | None) -> None:
    expected = again or "supervisorctl -c /srv/s.conf restart web:api"
    assert find_restarts([f"true; {command}"]) == (UnitRestart(unit, expected),)


def test_a_status_is_no_restart() -> None:
    assert find_restarts(["supervisorctl status api", "service nginx status"]) == ()
