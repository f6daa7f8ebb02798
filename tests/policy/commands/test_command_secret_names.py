"""Files with secrets, known by their names and by the folders that services keep them in."""

import pytest
from reading import HOME, effects

from hermes.environments.confinement.read_check import SecretPatterns
from hermes.policy.actions.unnamed_reads import secret_patterns
from hermes.policy.commands.paths import PathClassifier

ROOT = "/root"
SECRET = """
/srv/app/certs/privkey.pem /srv/certs/server.pem /srv/app/cache/privkey.pem /srv/ca/server.pem
/etc/letsencrypt/live/cert.example/privkey.pem /srv/chain/x.pem /srv/known_hosts/id_rsa
/srv/certs/ca-key.pem /srv/certs/cert-key.pem /srv/certs/fullchain-privkey.pem /srv/ca/cakey.pem
/srv/known_hosts.d/x.key /srv/.env.example/prod.env /srv/x.pub/id_ed25519 /usr/lib/x.py/.env
/srv/site-packages/x.py.d/.env /usr/lib/x/.pypirc
/srv/app/.env-prod /srv/app/.envrc /srv/app/.env~ /srv/app/.env_prod /srv/app/.flaskenv
/srv/app/prod.env.bak /srv/app/.ENV /srv/app/PROD.ENV /srv/app/.env2 /srv/app/.envbak
/srv/app/myenv.bak /srv/app/prod.env~ /srv/app/prod.env-old /srv/app/.env.local /srv/app/.envs/x
/srv/app/id_rsa.bak /srv/app/backup_id_rsa /srv/app/deploy_rsa /srv/app/deploy_ed25519
/srv/app/id_ed25519_github /srv/app/id_ecdsa_sk /srv/app/deploy_rsa.old /srv/x/ssh_host_rsa_key.bak
/var/backups/shadow /var/backups/shadow.bak /var/backups/gshadow /mnt/root/etc/shadow
/srv/shadow.old /etc/rancher/k3s/k3s.yaml /etc/rancher/rke2/rke2.yaml
/var/lib/rancher/k3s/server/node-token /var/lib/rancher/k3s/server/tls/server-ca.key
/etc/postfix/sasl_passwd /etc/postfix/sasl_passwd.db /etc/pgbouncer/userlist.txt
/etc/NetworkManager/system-connections/home.nmconnection /etc/docker/key.json
/etc/containers/auth.json /etc/wpa_supplicant/wpa_supplicant.conf /etc/ipsec.secrets
/srv/app/.env/lib/id_rsa /tmp/.env/lib/etc/shadow /tmp/.env/share/server.key /srv/.env/bin/.env
/srv/app/.env/production /srv/app/.env/lib.txt
/etc/letsencrypt/accounts/acme/directory/x/private_key.json
/etc/cloudflared/5f1c.json /etc/duo/pam_duo.conf /etc/sssd/sssd.conf /etc/dovecot/users
/var/lib/sss/secrets/secrets.ldb /var/lib/grafana/grafana.db /var/crash/core.1
/var/lib/systemd/coredump/core.api.0.lz4 /etc/ceph/ceph.client.admin.keyring /srv/vpn/client.ovpn
/srv/app/deploy.token /srv/app/.token /srv/app/token.txt /srv/passwords.txt /srv/app/password.txt
/srv/app/api_key.txt /srv/app/auth.json /srv/app/cookies.txt /srv/ann_accessKeys.csv
/srv/gcp-key.json
/srv/chart/values.secret.yaml /srv/k8s/db-secret.yaml /srv/k8s/db-secrets.yml /srv/.vault_pass.txt
/var/lib/rabbitmq/.erlang.cookie /srv/app/redis.pass /etc/app/secret /etc/app/token
/run/app/token /srv/app/secret_key /srv/app/db.password /srv/app/password /srv/app/api-key
"""
PUBLIC = """
/srv/app/certs/server-cert.pem /srv/app/fullchain.pem /srv/app/ca.pem /srv/app/ca-bundle.pem
/etc/letsencrypt/live/a.example/cert.pem /etc/ssl/certs/ISRG_Root_X1.pem /srv/app/id_rsa.pub
/etc/ssl/certs/ca-certificates.crt /srv/app/.env.example /srv/app/.env.sample
/srv/app/.env.template /srv/app/.env.dist /srv/app/.env.production.example
/srv/app/prod.env.example /srv/app/env.py /srv/app/environment.ts /srv/app/src/vite-env.d.ts
/srv/app/src/shadow.css /srv/app/src/test_rsa.py /srv/app/id_map.json /srv/app/docs/envoy.md
/srv/app/known_hosts /srv/app/userlist.txt /etc/NetworkManager/NetworkManager.conf
/etc/docker/daemon.json /etc/postfix/main.cf /etc/pgbouncer/pgbouncer.ini /var/backups/dpkg.status.0
/srv/app/.env/bin/activate /srv/app/.env/pyvenv.cfg /srv/app/.env/lib/python3.11/x/y.so
/srv/k8s/external-secret.yaml /srv/k8s/sealed-secret.yaml /srv/app/token.py /srv/go/token
/usr/share/keyrings/debian-archive.gpg /srv/app/src/password.ts /srv/app/keys.json
/usr/lib/python3/dist-packages/boto/credentials.py /srv/v/site-packages/certifi/cacert.pem
"""


@pytest.mark.parametrize("path", SECRET.split())
def test_secret_names_are_known_to_the_policy_and_to_the_supervisor(path: str) -> None:
    assert PathClassifier(HOME).is_secret(path)
    assert SecretPatterns(secret_patterns()).match(path)
    assert "secret-read" in effects(f"fold -w4 {path}")


@pytest.mark.parametrize("path", PUBLIC.split())
def test_names_that_only_look_so_stay_free(path: str) -> None:
    assert not SecretPatterns(secret_patterns()).match(path)
    if "-packages/" not in path:  # the names of modules are known to the supervisor alone
        assert "secret-read" not in effects(f"fold -w4 {path}")


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".pyenv/versions/3.11.7/bin/python3", False),
        (".local/share/pipx/venvs/hermes/bin/hermes", False),
        (".pyenv/versions/3.11.7/bin.old/python3", True),
        (".local/share/keyrings/login", True),
        (".bashrc", True),
    ],
)
def test_programs_below_the_home_of_root_are_no_secrets(path: str, secret: bool) -> None:
    assert ("secret-read" in effects(f"head -c 100 {ROOT}/{path}")) == secret


@pytest.mark.parametrize(
    "command",
    [
        "mv /tmp/s2/.env /tmp/plain.txt",
        "mv /tmp/a/server.key /tmp/b",
        "mv /tmp/a/*.env /tmp/b",
        "mv /tmp/a/* /tmp/b",
        "cd /tmp/a; mv .??? x",
        "mv -t /tmp/b /tmp/a/.ssh",
        "mv /tmp/a/.aws /tmp/b",
        'for f in /tmp/a/*; do mv "$f" /tmp/b; done',
        "find /tmp/a -name .env -exec mv {} /tmp/x \\;",
        "mv --backup=simple -S .txt /tmp/a/x /tmp/a/server.key",
        "cp -S .txt /tmp/a/x /tmp/a/server.key",
    ],
)
def test_another_name_for_a_secret_file_reads_it(command: str) -> None:
    assert "secret-read" in effects(command)


@pytest.mark.parametrize(
    "command",
    [
        "mv /tmp/a/report.txt /tmp/b",
        "mv /tmp/dir /tmp/dir2",
        "mv /tmp/a/* /tmp/b/",
        "mv /tmp/*.log /tmp/old/",
    ],
)
def test_other_files_are_only_moved(command: str) -> None:
    assert "secret-read" not in effects(command)
