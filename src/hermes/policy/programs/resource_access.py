"""What programs need besides reading files: sockets, the network, devices, privileges.

The program tables contain the effects of a command. This module contains what it has to connect to,
so that the kernel can refuse everything else.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from hermes.policy.commands.effects import word_set


class ResourceAccess(NamedTuple):
    peer: str = ""
    """The service that may write on its behalf."""
    sockets: tuple[str, ...] = ()
    network: bool = False
    """Its own configuration decides where it connects to."""
    needs: tuple[str, ...] = ()
    """Files that it opens for writing even when it only reads."""


_SYSTEMD_SOCKETS = (
    "/run/systemd/private",
    "/run/systemd/io.*",
    "/run/systemd/*/io.*",
    "/run/systemd/journal/*",
    "/run/dbus/system_bus_socket",
    "/run/user/*/bus",
    "/run/user/*/systemd/private",
)
_SSH_SOCKETS = (
    "/tmp/ssh-*/agent.*",
    "/run/user/*/keyring/*",
    "/run/user/*/gnupg/*",
    "/run/user/*/openssh_agent",
    "*/.ssh/*",
)
SYSTEMD_ACCESS = ResourceAccess("systemd", _SYSTEMD_SOCKETS)
CONTAINER_ACCESS = ResourceAccess(
    "the container daemon",
    (
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/user/*/podman/podman.sock",
        "/run/user/*/docker.sock",
        "*/.docker/run/docker.sock",
        "/run/containerd/*.sock",
        "/run/k3s/containerd/containerd.sock",
        "/run/crio/crio.sock",
        "/var/lib/lxd/unix.socket",
        "/var/snap/lxd/common/lxd/unix.socket",
        "/var/lib/incus/unix.socket",
        "/run/libvirt/*",
    ),
    network=True,
)
DATABASE_ACCESS = ResourceAccess(
    "the database",
    (
        "/run/postgresql/*",
        "/tmp/.s.PGSQL.*",
        "/run/mysqld/*",
        "/var/lib/mysql/*",
        "/tmp/mysql*.sock",
        "/run/redis/*",
        "/tmp/redis*.sock",
        "/tmp/mongodb-*.sock",
        "/run/clickhouse-server/*",
    ),
    network=True,
)
DAEMON_ACCESS = ResourceAccess(
    "a daemon of this machine",
    (
        "/run/*.sock",
        "/run/*.socket",
        "/run/*/*.sock",
        "/run/*/*.socket",
        "/run/fail2ban/*",
        "/run/dovecot/*",
        "/run/haproxy/*",
        "/run/chrony/*",
        "/var/spool/postfix/public/*",
        "/tmp/supervisor.sock",
        "*/.pm2/*.sock",
    ),
    network=True,
)
TERMINALS = ResourceAccess("the tmux server", ("/tmp/tmux-*/*", "/run/tmux-*/*", "/run/tmux/*/*"))
REMOTE_SERVICE_ACCESS = ResourceAccess("the service it is configured for", network=True)
REMOTE_HOST_ACCESS = ResourceAccess("the other host", _SSH_SOCKETS, network=True)

_ACCESS_GROUPS: tuple[tuple[ResourceAccess, str], ...] = (
    (
        SYSTEMD_ACCESS,
        "systemctl loginctl hostnamectl timedatectl localectl machinectl busctl networkctl"
        " resolvectl systemd-resolve systemd-analyze coredumpctl journalctl bootctl service"
        " systemd-cgtop systemd-cgls nmcli firewall-cmd udisksctl dbus-send gdbus rc-service",
    ),
    (
        CONTAINER_ACCESS,
        "docker podman nerdctl finch docker-compose podman-compose crictl ctr lxc incus virsh"
        " lxc-ls lxc-info lxc-top skopeo trivy grype syft dive nomad buildah minikube kind k3d",
    ),
    (
        DATABASE_ACCESS,
        "psql pgcli ysqlsh mysql mariadb mycli mysqlsh clickhouse-client clickhouse ch redis-cli"
        " valkey-cli keydb-cli iredis mongo mongosh pg_isready pg_activity pg_top mytop innotop"
        " mongotop mongostat redis-stat pg_dump pg_dumpall mysqldump mariadb-dump mysqladmin"
        " mariadb-admin mysqlshow patronictl repmgr rabbitmqctl rabbitmqadmin rabbitmq-diagnostics"
        " rabbitmq-queues rabbitmq-plugins nodetool cqlsh influx usql sqlcmd cockroach trino"
        " zkCli.sh memcached-tool memcstat memcping varnishadm kcat kafkacat nats pt-summary"
        " pt-mysql-summary mysqltuner pg_lsclusters mysqlbinlog mclient",
    ),
    (
        DAEMON_ACCESS,
        "supervisorctl monit pm2 fail2ban-client postqueue mailq postconf doveadm chronyc ntpq"
        " ntpdc ntpstat rndc unbound-control nsd-control pdns_control knotc haproxy"
        " passenger-status passenger-memory-stats passenger-config uwsgitop snap circusctl"
        " squidclient multipathd iscsiadm gluster ceph rbd rados consul vault bao etcdctl"
        " ovs-vsctl ovs-ofctl ovs-appctl facter ohai salt-call puppet atq lpstat acpi",
    ),
    (TERMINALS, "tmux"),
    (
        REMOTE_SERVICE_ACCESS,
        "aws awslocal gcloud bq az doctl linode-cli hcloud scw oci ibmcloud civo openstack flyctl"
        " fly heroku vercel netlify railway cf wrangler supabase firebase databricks snowsql snow"
        " aliyun tccli yc terraform tofu terragrunt tf pulumi packer infracost kubectl k oc k3s"
        " microk8s helm helmfile helm3 stern kail kubetail kube-capacity kubescape popeye argocd"
        " flux istioctl linkerd cilium hubble calicoctl velero eksctl kops rke talosctl rosa tkn"
        " argo kn kubent pluto gh glab hub promtool amtool logcli zabbix_get jenkins-cli npm pip"
        " pip2 pip3 gem conda mamba brew apt apt-get aptitude apt-cache apt-file apt-listchanges"
        " apt-show-versions yum dnf dnf5 microdnf zypper apk pacman snapd flatpak composer cargo go"
        " yarn pnpm poetry uv rmadison rclone s3cmd gsutil azcopy restic borg b2 s5cmd ansible"
        " ansible-inventory exim exim4 smbclient airflow hdfs nomad smbmap rpcclient showmount"
        " rpcinfo ldapsearch ldapwhoami avahi-browse nbtscan nfsstat vnstat tldr cheat navi howdoi"
        " kafka-topics kafka-topics.sh kafka-consumer-groups kafka-consumer-groups.sh"
        " kafka-configs kafka-configs.sh kafka-acls kafka-acls.sh kafka-log-dirs kafka-log-dirs.sh"
        " kafka-broker-api-versions kafka-broker-api-versions.sh kafka-get-offsets"
        " kafka-get-offsets.sh kafka-console-consumer kafka-console-consumer.sh",
    ),
    (
        REMOTE_HOST_ACCESS,
        "ssh autossh dbclient mosh rsh scp sftp sshpass pssh parallel-ssh pdsh clush",
    ),
)
_ACCESS_BY_PROGRAM = {name: reach for reach, names in _ACCESS_GROUPS for name in names.split()}

_NEEDS_BY_PROGRAM: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        word_set(
            "pvs vgs lvs pvdisplay vgdisplay lvdisplay pvscan vgscan lvscan lvmdiskscan dmsetup"
            " multipath lsblk"
        ),
        ("/run/lock/lvm", "/run/lvm", "/dev/mapper/control"),
    ),
    "nstat": ("/tmp/.nstat.u0",),
    "ifstat": ("/tmp/.ifstat.u0",),
    "nginx": ("/run/nginx.pid", "/var/log/nginx", "/var/lib/nginx"),
    **dict.fromkeys(word_set("zpool zfs"), ("/dev/zfs",)),
    **dict.fromkeys(word_set("iptables ip6tables iptables-legacy"), ("/run/xtables.lock",)),
    **dict.fromkeys(
        word_set("yum dnf dnf5 microdnf"), ("/var/cache/dnf", "/var/cache/yum", "/var/log/dnf.log")
    ),
    "nvidia-smi": (
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        *(f"/dev/nvidia{number}" for number in range(16)),
    ),
}

INTERFACE_PROGRAMS = word_set(
    "ifconfig route arp netstat iwconfig ethtool brctl iw hostname fuser lsof"
)
RAW_SOCKET_PROGRAMS = word_set(
    "ping ping6 traceroute traceroute6 tracepath mtr fping tcptraceroute httping nmap masscan"
    " tcpdump tshark dumpcap ngrep tcpflow iftop nethogs arping arp-scan hping3"
    " iptraf-ng bmon nload"
)
NETWORK_SETTING_PROGRAMS = word_set(
    "iptables ip6tables arptables ebtables iptables-legacy iptables-nft iptables-save"
    " ip6tables-save nft ipset conntrack wg ipvsadm ufw ethtool tc bridge"
)
AUDIT_PROGRAMS = word_set("auditctl augenrules")
DEVICE_PROGRAMS = word_set(
    "fdisk sfdisk cfdisk gdisk sgdisk parted blockdev hdparm sdparm smartctl nvme lvs pvs vgs"
    " pvdisplay vgdisplay lvdisplay pvscan vgscan lvscan lvmdiskscan mdadm dmsetup cryptsetup"
    " multipath zpool zfs btrfs nvidia-smi rocm-smi sensors dmidecode lshw hwinfo ipmitool storcli"
    " megacli perccli arcconf ssacli lsscsi sg_inq sg_scan xfs_info dumpe2fs tune2fs filefrag"
    " turbostat powertop hwclock blkid stty setterm losetup zramctl bpftool perf udevadm lstopo"
    " sysctl"
)
DEVICE_READERS = DEVICE_PROGRAMS | word_set(
    "lsblk file badblocks e2fsck fsck e2label findfs findmnt partx wipefs swapon mount grub-probe"
)
"""Programs that read a device, and print none of its content."""
LISTENING_PROGRAMS = word_set("nginx openresty tengine apachectl apache2ctl httpd apache2")
"""Programs that bind their ports when they test their configuration."""
PROCESS_INSPECTORS = word_set(
    "lsof fuser pmap pwdx pidof iotop htop btop atop nethogs lsns lsfd lslocks smem numastat strace"
    " ltrace gdb py-spy rbspy jstack jps jinfo jstat jcmd jmap peekfd iftop glances nmon pidstat"
    " needrestart checkrestart procinfo jhsdb bpftop"
)
"""Programs that inspect other processes."""
JAVA_TOOLS = word_set("jstack jinfo jcmd jmap jhsdb")
PROCESS_TRACERS = JAVA_TOOLS | word_set("strace ltrace gdb py-spy rbspy")
"""Those that attach to a process, which they could change."""
PRIVILEGE_PROGRAMS = word_set(
    "sudo doas pkexec su runuser sudo-rs please dzdo gksudo gksu kdesu kdesudo sg newgrp ping ping6"
    " mtr traceroute arping fping crontab at atq atrm batch chage passwd mailq postqueue locate"
    " mlocate plocate mount umount fusermount fusermount3 dumpcap"
)
"""Programs with more rights than their user; `no_new_privs` removes these."""
TEMPORARY_FILE_WRITERS = word_set(
    "sed gsed ssed perl ruby patch rsync gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma lz4"
    " pigz brotli compress uncompress dos2unix unix2dos install split csplit zip jq yq gojq"
    " jaq ruff black isort prettier gofmt shfmt terraform tofu sqlite3 sqlite duckdb wget curl sort"
    " openssl ssh-keygen sponge iconv"
)
"""Programs that write a temporary file beside the one they change."""
NETWORK_USE = "the network (IPv*"
OPTIONAL_PATHS: dict[str, tuple[str, ...]] = {
    "blkid": ("/run/blkid/blkid.tab*",),
    "findmnt": ("/run/mount/utab*",),
    "sshd": (NETWORK_USE,),
    **dict.fromkeys(
        word_set("java javac jar jshell"), ("/proc/*/coredump_filter", "/tmp/hsperfdata_*")
    ),
}
"""Files that programs try to write but do not need: mostly caches."""
REMOTE_WRAPPERS = word_set(
    "ssh autossh dbclient mosh rsh pssh parallel-ssh pdsh clush docker podman nerdctl kubectl oc k"
    " lxc incus crictl ctr docker-compose podman-compose nomad vagrant limactl multipass machinectl"
)
"""Wrappers whose command runs on another host or in a container."""

_CLUSTER_PROGRAMS = word_set(
    "kubectl k oc k3s microk8s k9s kubectx kubens helm helm3 helmfile stern kail kubetail"
    " kube-capacity kubescape popeye argocd flux istioctl linkerd cilium hubble calicoctl velero"
    " eksctl kops tkn argo kn kubent pluto kustomize minikube kind k3d terraform tofu terragrunt tf"
    " pulumi"
)
"""They log in to clusters, also by a program of the cloud that their configuration names."""
_PROGRAMS_BY_CREDENTIALS: dict[str, frozenset[str]] = {
    "~/.ssh/id_*": word_set(
        "ssh autossh dbclient mosh rsh scp sftp sshpass pssh parallel-ssh pdsh clush rsync git"
        " ansible ansible-inventory ansible-playbook vagrant borg restic rclone"
    ),
    "~/.pgpass": word_set(
        "psql pgcli ysqlsh pg_isready pg_activity pg_top pg_dump pg_dumpall patronictl repmgr usql"
    ),
    **dict.fromkeys(
        ("~/.my.cnf", "~/.mylogin.cnf"),
        word_set(
            "mysql mariadb mycli mysqlsh mysqldump mariadb-dump mysqladmin mariadb-admin mysqlshow"
            " mysqlbinlog mytop innotop mysqltuner pt-summary pt-mysql-summary"
        ),
    ),
    "~/.netrc": word_set("curl wget wget2 http https git ftp lftp heroku"),
    "~/.aws/credentials": _CLUSTER_PROGRAMS
    | word_set("aws awslocal packer s3cmd s5cmd rclone restic ansible"),
    "~/.kube/config": _CLUSTER_PROGRAMS | {"trivy"},
    "~/.docker/config.json": word_set(
        "docker docker-compose podman podman-compose nerdctl finch buildah skopeo trivy grype syft"
        " dive minikube kind k3d"
    ),
    "~/.git-credentials": word_set("git gh glab"),
    "~/.vault-token": word_set("vault bao nomad terraform tofu terragrunt tf"),
    "~/.config/gcloud/*credentials*": _CLUSTER_PROGRAMS
    | word_set("gcloud bq gsutil packer rclone ansible"),
}
_PROGRAMS_BY_SECRET_FILE: dict[str, frozenset[str]] = {
    "*/.azure/*": _CLUSTER_PROGRAMS | word_set("az ansible packer"),
    "*/.npmrc": word_set("npm yarn pnpm"),
    "*/.pypirc": word_set("pip pip2 pip3 poetry uv"),
    "*/.gem/credentials": word_set("gem"),
    "*/.cargo/credentials*": word_set("cargo"),
    "*/.config/gh/hosts.yml": word_set("gh git"),
    "*/.terraform.d/credentials*": word_set("terraform tofu terragrunt tf packer"),
}
"""Secret files that are not hidden: these programs may open them, others are refused."""
_NETRC_OPTION = re.compile(r"-[A-Za-z0-9#]*n|--netrc")
_CHART_VERBS = word_set("template lint package show inspect")
_KUSTOMIZE_OPTION = re.compile(r"-[A-Za-z]*k|--kus")
_HOST_OPTION = re.compile(r"-H|--host\b")


_OFFLINE_VERBS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("terraform", "tofu"),
        word_set("validate fmt version -version --version -v -help --help help"),
    ),
    **dict.fromkeys(("terragrunt", "tf"), word_set("--version -version -v --help")),
    "packer": word_set("version --version -v --help"),
    "npm": word_set("ls list ll la root prefix bin explain why fund get config query help version")
    | word_set("--version -v --help"),
    **dict.fromkeys(("yarn", "pnpm", "poetry", "uv"), word_set("--version -v -V --help")),
    "cargo": word_set("tree metadata version help --list --version -V --help"),
    "go": word_set("version env list doc help"),
    "composer": word_set("show info licenses depends why status about --version -V --help"),
    "pulumi": word_set("version help --version --help"),
    "helmfile": word_set("version help --version --help"),
    **dict.fromkeys(("ansible", "ansible-inventory"), word_set("--version --help")),
}
"""What programs that run or obey files of a project do without the network. They do not get it, nor
credentials, so that no such file can use them."""
_SERVER_OPTIONS = {
    "go": re.compile(r"--?m\Z"),
    "composer": re.compile(r"-[a-zA-Z]*[loaA]|--(?:latest|outdated|all|available)\b"),
}
"""Options with which they ask a server about other versions."""


def works_offline(program: str, words: Sequence[str]) -> bool:
    """Return whether it needs no network, although others of its verbs do."""
    verbs = _OFFLINE_VERBS.get(program)
    if not verbs:
        return False
    asks = _SERVER_OPTIONS.get(program)
    if asks and any(map(asks.match, words)):
        return False
    if len(words) == 1 and words[0] in verbs:
        return True
    verb = next((each for each in words if not each.startswith("-")), "")
    return verb in verbs


def is_on_remote_host(program: str, words: Sequence[str]) -> bool:
    """Return whether it asks another host over SSH: `systemctl -H host`, `docker -H ssh://host`."""
    if access_of(program) is SYSTEMD_ACCESS:
        return any(map(_HOST_OPTION.match, words))
    return any("ssh://" in word for word in words)


def credentials_of(program: str, words: Sequence[str]) -> frozenset[str]:
    """The files with credentials that the program opens; `~` is a home folder."""
    if program == "curl" and not any(map(_NETRC_OPTION.match, words)):
        return frozenset()
    if prints_local_files(program, words) or works_offline(program, words):
        return frozenset()
    names = {program, "ssh"} if is_on_remote_host(program, words) else {program}
    return frozenset(file for file, users in _PROGRAMS_BY_CREDENTIALS.items() if users & names)


def prints_local_files(program: str, words: Sequence[str]) -> bool:
    """Return whether a client of a cluster logs in to none, and prints what files of a folder
    name."""
    if program in ("helm", "helm3"):
        return not _CHART_VERBS.isdisjoint(words)
    return program == "kustomize" or (program in _CLUSTER_PROGRAMS and "kustomize" in words)


def builds_manifests(program: str, words: Sequence[str]) -> bool:
    """`kubectl diff -k folder`: it logs in, and prints what files of a folder name."""
    return program in _CLUSTER_PROGRAMS and any(map(_KUSTOMIZE_OPTION.match, words))


def own_secret_files(program: str) -> tuple[str, ...]:
    """Patterns of the secret files that a client of a service reads itself."""
    return tuple(file for file, users in _PROGRAMS_BY_SECRET_FILE.items() if program in users)


def access_of(program: str) -> ResourceAccess:
    """Return what the program needs; nothing for one that only reads files."""
    found = _ACCESS_BY_PROGRAM.get(program, ResourceAccess())
    return (
        found._replace(needs=_NEEDS_BY_PROGRAM[program]) if program in _NEEDS_BY_PROGRAM else found
    )
