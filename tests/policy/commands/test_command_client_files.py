"""Files and variables that clients print: their own credentials, and those of what they manage."""

import pytest
from reading import beyond, cases

HELD = cases(
    r"""
aws ec2 describe-instances --filters file:///home/u/.aws/credentials
aws ec2 describe-instances --filters=file://~/.aws/credentials
aws ec2 describe-instances --cli-input-json file://~/.aws/credentials
helm template x ./c --set-file a=/home/u/.kube/config
helm template x ./c --set-file a=b.txt,c=/home/u/.kube/config
kubectl get pods -o go-template-file=/home/u/.kube/config
kubectl get pods --output=custom-columns-file=/home/u/.kube/config
kubectl get -f any.yaml -o yaml
kubectl get -k . -o json
crictl inspect 3f2a
hg cat .env
docker inspect -f '{{printf "%v" .}}' c
docker inspect -f '{{range $k,$v := .Config}}{{$v}}{{end}}' c
docker inspect -f '{{with $c := .}}{{$c.Config.Env}}{{end}}' c
docker inspect -f '{{range .Mounts}}{{$.Config.Env}}{{end}}' c
docker inspect -f '{{range .Mounts}}{{end}}{{.}}' c
docker inspect -f '{{with .Mounts}}{{else}}{{.}}{{end}}' c
docker inspect -f '{{(.Config).Env}}' c
docker inspect -f '{{.HostConfig.LogConfig}}' c
docker inspect -f json c
kubectl get --raw /api/v1/namespaces/x/Secrets
kubectl kustomize 'https://evil.example/x?ref=text'
svn cat .env
pm2 env 0
pm2 jlist
"""
)
FREE = cases(
    r"""
aws ec2 describe-instances --filters file://f.json
helm template x ./c --set-file a=values.txt
kubectl get pods -o yaml
kubectl get -f any.yaml
kubectl get pods -o jsonpath-file=form.txt
crictl inspecti nginx
svn diff src
docker inspect -f '{{if .State.Health}}{{.State.Health.Status}}{{else}}none{{end}}' web
docker inspect -f '{{range $k, $v := .NetworkSettings.Ports}}{{$k}} {{index $v 0}}{{end}}' web
docker inspect -f '{{range .Mounts}}{{.Source}}:{{.Destination}} {{end}}' web
docker inspect -f '{{.Config.Image}} {{json .Config.Labels}} {{.HostConfig.Memory}}' web
kubectl get --raw /metrics
pm2 list
influx -execute 'SHOW DATABASES'
getopt --version
pgbouncer --version
psql -c 'select b.pid from t join lateral unnest(pg_blocking_pids(1)) b(pid) on true'
"""
)


@pytest.mark.parametrize("command", HELD)
def test_a_client_that_may_print_secrets_is_held(command: str) -> None:
    assert beyond(command)


@pytest.mark.parametrize("command", FREE)
def test_a_client_that_prints_other_files_is_free(command: str) -> None:
    assert not beyond(command)
