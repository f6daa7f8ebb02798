"""Words that operators use for one thing: `etcd` is a key-value store, a 502 is a bad gateway.

Small embedders were never taught these; people ask in one word what the log says in the other.
"""

from collections.abc import Callable

_GROUPS = """
502 gateway upstream | 503 unavailable overloaded | 504 timeout
401 unauthorized unauthenticated | 403 forbidden denied refused | 404 missing
429 throttle throttled ratelimit | oom memory ram heap | oomkilled memory killed 137
disk volume storage filesystem | inode disk | full space exhausted watermark quota
slow latency sluggish lag lagged p95 p99 | hang hung stuck frozen froze
crash crashed segfault panic died crashloopbackoff
restart reboot bounce restarted rebooted bounced | tls ssl certificate cert x509 https
ca authority trust | expired expiry outdated stale
login signin auth authentication sso ldap oauth saml | password credential secret key
token jwt session | permission rights access iam role rbac
firewall waf iptables allowlist security | dns resolver lookup resolution route53 coredns
proxy nginx haproxy envoy traefik ingress | balancer haproxy elb alb
mesh istio istiod envoy sidecar | cdn edge varnish cloudfront | queue broker kafka rabbitmq sqs
consumer reader subscriber | producer publisher sender | stream streaming flink kafka kinesis
cache redis memcached varnish | database postgres mysql db | postgres postgresql psql pg
mongodb mongo document | cassandra column | etcd keyvalue consul zookeeper coordination
replica replication secondary standby slave | primary master leader | wal writeahead binlog
index reindex indexes | search elasticsearch opensearch solr lucene | migration schema ddl
backup snapshot dump copy archive | restore recover recovery | failover switchover
cluster kubernetes k8s | kubernetes kube kubelet | pod container docker
node host machine server | chart helm release
autoscale autoscaler autoscaling hpa scale scaled | replica copy replicas
terraform infrastructure iac | ansible puppet
staging preproduction preprod test | deploy deployment release rollout version
rollback revert reverted undo rolled | canary gradual | pipeline ci build jenkins gitlab airflow
job cron scheduled nightly overnight batch | scheduler airflow cron | serverless lambda function
bucket s3 object blob | image picture photo thumbnail | network link interface nic
vpc subnet network peering | bgp routing peer transit uplink | vpn tunnel ipsec
clock ntp chrony chronyd drift | wifi wireless
monitoring prometheus grafana metrics | dashboard chart grafana kibana
alert alarm notification | log logs logging syslog rsyslog | trace tracing span spans otel
cpu processor | gpu graphics cuda | raid array | virtual vm guest hypervisor
firmware bios | email mail smtp | spam blocklist dkim
payment checkout billing invoice invoicing card | cart basket checkout | order purchase
customer client user tenant buyer shopper | stock inventory warehouse
ledger accounting finance | webhook callback | throttle limit limiting rate
retry retries repeat | duplicate double twice | delete deleted removed purge dropped destroyed
corrupt corrupted damaged inconsistent broken | refuse refused rejected denied blocked
lost dropped missing vanished
""".replace("\n", " | ")


class Jargon:
    """The groups as one stemmer sees them: `disks` and `disk` are one word."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._alike: dict[str, set[str]] = {}
        for group in _GROUPS.split("|"):
            members = {stem(word) for word in group.split()}
            for word in members:
                self._alike.setdefault(word, set()).update(members)

    def alike(self, stem: str) -> frozenset[str]:
        """Stems of other words for the same thing."""
        return frozenset(self._alike.get(stem, ())) - {stem}
