"""Analyses a question for recall: terms, identifiers, names, and synonyms of operators' words.

Small embedders do not know such synonyms: `etcd` is a key-value store, a 502 is a bad gateway.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from hermes.memory.search.text_analysis import CONTENTLESS_WORDS, STOP_WORDS, Stemmer, split_words
from hermes.plumbing.patterns import lazy_pattern

_SYNONYM_GROUPS = """
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


class Synonyms:
    """The groups in stemmed form: `disks` and `disk` are one word."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._synonyms: dict[str, set[str]] = {}
        for group in _SYNONYM_GROUPS.split("|"):
            members = {stem(word) for word in group.split()}
            for word in members:
                self._synonyms.setdefault(word, set()).update(members)

    def synonyms_of(self, stem: str) -> frozenset[str]:
        """Stems of other words for the same thing."""
        return frozenset(self._synonyms.get(stem, ())) - {stem}


_QUOTED = lazy_pattern(r"[\"“`]([^\"”`]{2,200})[\"”`]|(?<!\w)'([^']{2,200})'(?!\w)")
_TOKEN = re.compile(r"[^\s,;!?\"“”`()\[\]{}<>]+")
_WANTS_SEVERAL = lazy_pattern(
    r"^(what|which|who|where|how)\b[^?]*\b(has|have)\b"
    r"|\b(what|which) (are|were|kinds?|types?)\b"
    r"|\b(what|which) (?!(does|is|was|has|his)\b)\w+s\b"
    r"|\b(what|which) (?!(does|is|was|has|did|do|will|would|can|could|should|might)\b)\w+ "
    r"(?!(does|is|was|has|his)\b)\w+[^s\W]s\b"
    r"|\b(both|common|every time)\b|\bhow (many|often)\b",
    re.IGNORECASE,
)
"""Plural, perfect tense, counting: the answer lies in several places."""
_WANTS_TIME = lazy_pattern(
    r"^\W*(when|since when|how long|(on |in )?(what|which) (year|month|week|day|date|time))\b", re.I
)


class QuestionTerm(NamedTuple):
    raw: str
    stems: tuple[str, ...]
    """More than one when the tokenizer splits it."""
    exact: bool
    """An identifier, number, path or quoted text: only an exact match counts in full."""
    synonyms: frozenset[str] = frozenset()
    """Stems of other words for the same thing."""


class RecallQuestion(NamedTuple):
    text: str
    terms: Sequence[QuestionTerm]
    wants_several: bool
    wants_time: bool


def parse_question(text: str, stemmer: Stemmer) -> RecallQuestion:
    jargon = Synonyms(stemmer.stem)
    terms: dict[tuple[str, ...], QuestionTerm] = {}
    for word in dict.fromkeys([*_quoted_strings(text), *_tokens(text)]):
        exact = is_identifier(word) or " " in word
        parts = split_words(word)
        if parts and (exact or not all(part in STOP_WORDS for part in parts)):
            stems = tuple(stemmer.stem(part) for part in parts)
            # Joined, since `write-ahead` and `key-value` are used as one word.
            others = jargon.synonyms_of(stemmer.stem("".join(parts)))
            terms.setdefault(stems, QuestionTerm(word, stems, exact, others))
    return RecallQuestion(
        text,
        tuple(terms.values()),
        bool(_WANTS_SEVERAL.search(text)),
        bool(_WANTS_TIME.match(text)),
    )


def is_contentless(text: str) -> bool:
    """Return True for requests such as "please continue": anything recalled for them is
    unrelated."""
    return all(word in CONTENTLESS_WORDS for word in split_words(text))


def is_identifier(word: str) -> bool:
    """A name that people do not paraphrase: digits, inner punctuation, or odd capitals."""
    if any(sign.isdigit() for sign in word):
        return True
    inner = word.strip(".:-_/'’")
    if re.search(r"\w[-_./:=@#\\]+\w", inner) and not re.fullmatch(r"[a-z]+-[a-z]+", inner):
        return True
    return bool(re.search(r"[a-z][A-Z]|^[A-Z]{4,}$", inner))


def named_speakers(question: RecallQuestion, speakers: Collection[str]) -> Sequence[str]:
    """The speakers that the question names, by the whole name or its first word."""
    asked = set(split_words(question.text))
    found = []
    for speaker in speakers:
        parts = split_words(speaker)
        if parts and (parts[0] in asked) and len(parts[0]) > 1 and parts[0] not in STOP_WORDS:
            found.append(speaker)
    return found


def without_names(question: RecallQuestion, names: Collection[str]) -> str:
    """The question for the vectors: names match greetings instead of content."""
    text = question.text
    for name in names:
        first = split_words(name)[0]
        text = re.sub(rf"\b{re.escape(first)}\b(['’]s\b)?", " ", text, flags=re.I)
    bare = " ".join(text.split())
    return bare if split_words(bare) else question.text


def _quoted_strings(text: str) -> list[str]:
    return [a or b for a, b in _QUOTED.findall(text)]


def _tokens(text: str) -> list[str]:
    return [
        token
        for found in _TOKEN.findall(text)
        if (token := re.sub(r"['’]s$", "", found.strip(".:'’-*")))
    ]
