"""A way back is shown only where it is one."""

import pytest

from hermes.policy.undo import NO_UNDO, find_undo


@pytest.mark.parametrize(
    ("command", "back"),
    [
        ("systemctl stop nginx", "systemctl start nginx"),
        ("supervisorctl stop web:api", "supervisorctl start web:api"),
        ("rc-service nginx stop", "rc-service nginx start"),
        ("sudo systemctl --user enable --now x", "sudo systemctl --user disable --now x"),
        ("service nginx stop", "service nginx start"),
        ("docker compose stop web", "docker compose start web"),
        ("mv a b", "mv b a (if b is not there yet)"),
        ("mkdir new", "rmdir new"),
        ("ln -s /srv/a b", "unlink b"),
        ("kubectl cordon node1", "kubectl uncordon node1"),
        ("kubectl rollout restart deploy/web", "kubectl rollout undo deploy/web"),
        ("kubectl rollout pause deploy/web", "kubectl rollout resume deploy/web"),
        ("helm upgrade web ./chart", "helm rollback web"),
        ("git commit -m 'x y'", "git reset --soft HEAD~1"),
        ("git stash", "git stash pop"),
        ("iptables -A INPUT -j DROP", "iptables -D INPUT -j DROP"),
        ("chmod 600 key", "by hand, with the mode and owner as `stat` shows them now"),
    ],
)
def test_a_known_way_back_is_shown(command: str, back: str) -> None:
    assert find_undo("terminal", command) == back


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm -rf /srv/x",
        "systemctl restart nginx",
        "systemctl restart stop",
        "systemctl stop nginx; rm x",
        "systemctl stop $UNIT",
        "mv a b c",
        "mv -t dir a",
        "mv *.log old",
        "mkdir -p a/b",
        "git push --force",
        "unclosed 'quote",
        "sudo -u x systemctl stop nginx",
        "make",
    ],
)
def test_nothing_is_promised_that_may_not_hold(command: str) -> None:
    assert find_undo("terminal", command) == NO_UNDO


def test_a_file_that_is_written_over_is_not_kept() -> None:
    assert "not kept" in find_undo("write_file", "")
