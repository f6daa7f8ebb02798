"""Options that make a program look only: when they count, and when something beside them runs."""

import pytest
from reading import beyond, cases

SWITCHED_OFF = cases(r"""
kubectl delete pod x --dry-run=none
kubectl delete --raw /api/v1/namespaces/default/pods/x --dry-run=client
kubectl create --raw /api/v1/namespaces/default/pods -f pod.json --dry-run=client
kubectl replace --raw /api/v1/namespaces/default/pods/x -f pod.json --dry-run=server
kubectl delete pod x --dry-run=false
kubectl delete pod x --dry-run=client --dry-run=none
helm uninstall web --dry-run=false
apt-get --simulate=false install nginx
""")
NOT_ALONE = cases(r"""
ruby -v -e 'system("id > f")'
perl -h -e 'unlink "f"'
php -v -r 'system("id > f");'
ruby -v script.rb
erl -noshell -eval 'os:cmd("rm f").'
echo 'os.execute("rm f")' | lua -v
pytest -v
ninja -v
gcc -v f.c
kill -9 1234 -0
pkill -9 nginx -l
strace -e inject=all:error=EIO -p 1
perf stat rm f
bash -n -i
git commit --amend
git -p log
""")
ONLY_LOOKS = cases(r"""
kubectl delete -f x.yaml --dry-run=server
kubectl scale deploy web --replicas=0 --dry-run=client
aws s3 sync a s3://b --delete --dryrun
aws s3 rm help
zfs destroy -nv tank/x@y
git rm --dry-run f
git rebase --help
terraform destroy -help
ruby -v
gcc -v
kill -0 1234
kill -l TERM
bash -n deploy.sh
strace -c -p 1234
perf stat -p 1234 sleep 5
sudo nsenter -t 1234 -n ss -tlnp
wipefs /dev/sda
badblocks -sv /dev/sdb
""")


@pytest.mark.parametrize("command", SWITCHED_OFF)
def test_a_rehearsal_that_is_switched_off_is_none(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize("command", NOT_ALONE)
def test_a_harmless_option_does_not_hide_what_stands_beside_it(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize("command", ONLY_LOOKS)
def test_what_only_says_what_it_would_do_looks(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize(
    "command",
    ["gzip -c /etc/shadow", "xz -dc /etc/shadow", "mtr -F /etc/shadow host", "nm @/etc/shadow",
     "curl -H @/etc/shadow http://localhost", "ssh-keyscan -f /etc/shadow"],
)  # fmt: skip
def test_a_secret_is_a_secret_behind_any_option(command: str) -> None:
    assert "secret-read" in beyond(command)


def test_an_option_named_like_a_command_is_taken_for_one() -> None:
    assert "exec-dynamic" in beyond("restic --password-command 'sh x' check")
    assert "exec-dynamic" in beyond("kubeconform --some-hook x f.yaml")
    assert not beyond("journalctl --no-pager -n 5")
