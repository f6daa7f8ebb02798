"""Commands that change nothing and print passwords, keys or tokens ask as a secret file does."""

import pytest
from reading import beyond, cases, effects

PRINTS_SECRETS = """
unzip -p z.zip
unzip -c z.zip
unzip -p z.zip .env
unzip -p z.zip '*nv'
tar xzOf b.tgz
tar -x --to-stdout -f b.tgz
tar xOf b.tgz --wildcards '.e*'
bsdtar -xOf b.tgz
zipgrep -h . z.zip
gzip -dc b.tgz | tar xO
tar xzf b.tgz -C /tmp/x --transform s/.env/y/
cat .git/objects/44/94381cdd4a30a5543637adf764421e271cba1c
redis-cli MONITOR
redis-cli -h cache monitor
nomad alloc fs 5f1c secrets/db.env
nomad alloc fs 5f1c web/secrets
istioctl proxy-config secret web-0 -o json
istioctl pc secret web-0
aws codebuild batch-get-projects --names x
helm get values x
helm get values x -n prod -a
helm get all x
helm get manifest x
helm get hooks x
helm status x -o yaml
helm template --validate .
helm install --dry-run=server x .
helm template -f secrets.yaml .
helm diff upgrade --show-secrets x .
docker compose config
docker compose -f x.yml config
docker compose convert
docker-compose config
podman compose config
systemctl show nginx
systemctl show
systemctl show -p Environment nginx
systemctl show nginx -p MainPID,Environment
systemctl show -P Environment nginx
systemctl show nginx --property=Environment
systemctl show nginx --prop=Environment
systemctl show -p "$p" nginx
systemctl show-environment
systemctl --user show-environment
ssh web1 systemctl show nginx
busctl get-property org.freedesktop.systemd1 /x org.freedesktop.systemd1.Service Environment
busctl introspect org.freedesktop.systemd1 /org/freedesktop/systemd1/unit/x
etcdctl get /app
etcdctl get --prefix / --print-value-only
etcdctl watch /app
consul kv get app/db
consul kv get -recurse app/
consul kv export
nomad job inspect x
nomad var get x
vault kv get secret/x
vault read secret/x
declare -p DB_PASSWORD
typeset -p DB_PASSWORD
export -p API_TOKEN
printenv DB_PASSWORD
echo $DB_PASSWORD
kubectl config view --raw
kubectl exec x -- env
kubectl create token sa
kubeadm token list
aws configure export-credentials
aws ecs describe-task-definition --task-definition x
gcloud auth print-access-token
az account get-access-token
az webapp config appsettings list -n x -g y
gh auth token
gh auth status -t
glab config get token
pass show x
gopass show x
bw get password x
security find-generic-password -s x -w
security find-internet-password -s x
secret-tool lookup a b
keyctl print 1
systemd-creds cat x
doppler secrets
nmcli -s connection show x
nmcli --show-secrets connection show x
nmcli device wifi show-password
nmcli d w show-password
wg show all private-key
wg show wg0 preshared-keys
wg show wg0 dump
wg showconf wg0
ip xfrm state
ip -s xfrm state list
ip x s
ip xfrm monitor
virsh dumpxml --security-info x
virsh secret-get-value x
cryptsetup luksDump --dump-master-key /dev/sda
dmsetup table --showkeys
rabbitmqctl environment
argocd admin initial-password
launchctl getenv X
"""
PRINTS_NONE = """
unzip -p z.zip app.log
unzip -p z.zip '*.log'
unzip -l z.zip
tar xzOf b.tgz ./etc/nginx/nginx.conf
tar tzf b.tgz
zipgrep timeout z.zip app.log
helm list
helm status x
helm get notes x
helm get metadata x
helm template .
helm template web ./chart -f values.yaml
helm upgrade --dry-run x . -f values.yaml
helm diff upgrade web ./chart
docker compose config --services
docker compose config -q
docker compose config --images
docker compose ps
systemctl show nginx -p MainPID,ActiveState
systemctl show -p NRestarts --value api
systemctl show poweroff.target
systemctl cat nginx.service
systemctl status nginx
etcdctl get /registry --prefix --keys-only
etcdctl member list
consul kv get -keys app
consul members
vault kv list secret
declare -p PATH
kubectl config view --minify
az account show
gh auth status
nmcli connection show x
nmcli device wifi list
wg show
wg show wg0 peers
ip xfrm policy
ip xfrm state count
ip xfrm state list nokeys
busctl tree org.freedesktop.systemd1
virsh dumpxml x
cryptsetup luksDump /dev/sda2
dmsetup table
"""
OWN_ENVIRONMENT = """
env
printenv
set
export -p
declare -p
declare -x
typeset -p
"""


@pytest.mark.parametrize("command", cases(PRINTS_SECRETS))
def test_what_prints_secrets_is_a_read_of_secrets(command: str) -> None:
    assert "secret-read" in effects(command)


@pytest.mark.parametrize("command", cases(PRINTS_NONE))
def test_its_neighbour_that_prints_none_only_looks(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize("command", cases(OWN_ENVIRONMENT))
def test_the_own_environment_holds_no_secrets_and_may_be_listed(command: str) -> None:
    """Commands get none of Hermes' keys (`test_local_environment.py`), so a list shows none."""
    assert not beyond(command)


PRINTS_REQUESTS = """
aws --debug s3 ls
aws s3 ls --deb
gcloud compute instances list --log-http
az vm list --debug
kubectl get pods -v9
kubectl -v=8 get pods
kubectl get pods --v 10
kubectl -v "$level" get pods
kubectl -v 9 exec web -- ls
oc --loglevel=9 get pods
doctl --trace compute droplet list
openstack --debug server list
hcloud --debug server list
s3cmd -d ls
gsutil -D ls
wget -d --spider https://example.org
http --verbose https://example.org
ldapsearch -d 7 -x uid=a
vault status -output-curl-string
etcdctl --debug member list
TF_LOG=trace terraform plan
TF_LOG="$x" terraform plan
export TF_LOG=trace
GH_DEBUG=api gh pr list
GODEBUG=http2debug=2 kubectl get pods
VAULT_OUTPUT_CURL_STRING=1 vault status
"""

PRINTS_NO_REQUESTS = """
kubectl get pods -v=6
kubectl get pods -v 2
TF_LOG= terraform plan
TF_LOG=error terraform plan
RUST_LOG=warn hcloud server list
DEBUG=1 ls
helm template . --debug
docker --debug ps
aws s3 ls --no-paginate
aws ecs describe-tasks --tasks $(aws ecs list-tasks --query 'taskArns[0]' --output text)
"""


@pytest.mark.parametrize("command", cases(PRINTS_REQUESTS))
def test_a_client_that_prints_its_requests_prints_its_tokens(command):
    assert "secret-read" in effects(command)


@pytest.mark.parametrize("command", cases(PRINTS_NO_REQUESTS))
def test_other_options_for_more_words_print_no_tokens(command):
    assert not beyond(command)
