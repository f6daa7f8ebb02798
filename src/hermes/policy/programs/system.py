"""Programs that show the state of the machine, or change it when given arguments."""

import re
from collections.abc import Iterable

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
)
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    ProgramEntry,
    parse_arguments,
)
from hermes.policy.programs.table_effects import apply_table

_SHOW_VERBS = word_set("show sho sh list lst ls l get monitor help")


_PS_ENVIRONMENT_OPTION = re.compile(r"[AacfghHjlLmnrsSTuvVwWxXZ]*e[AacefghHjlLmnrsSTuvVwWxXZ]*\Z")


def ps(call: ProgramCall, entry: ProgramEntry) -> str:
    """`ps e` prints the environment of every process; `ps -e` selects all of them."""
    printed = apply_table(call, entry) or ANY_WORD
    mark_printed_environment(call, parse_arguments(call.argv[1:], entry.grammar).words)
    return printed


def mark_printed_environment(call: ProgramCall, words: Iterable[str]) -> None:
    """`words`: those that ps gets beside its options."""
    if any(map(_PS_ENVIRONMENT_OPTION.match, words)):
        call.mark("secret-read", "prints the environment of processes, passwords and all")


def ip(call: ProgramCall, entry: ProgramEntry) -> str:
    """`ip object verb`: verbs may be abbreviated; without one it shows."""
    found = parse_arguments(call.argv[1:], OptionGrammar(entry.grammar.values, True, stops=None))
    call.flags = tuple(found.names())
    if any(re.fullmatch(r"-b(?:a(?:t(?:ch?)?)?)?|-force", name) for name in found.names()):
        call.dynamic("ip runs lines of a file")
    words = found.words
    if words[:2] in (["netns", "exec"], ["vrf", "exec"]):
        at = call.argv.index("exec") + (1 if found.has("-a", "-all") else 2)
        return call.run(call.argv[at:])
    if any(map(has_untrusted_text, words[:2])):
        call.mark("unknown", "what ip does is only known at run time")
        return ANY_WORD
    verb = words[1] if len(words) > 1 else "show"
    short = verb == "s" and words[0][:1] not in ("l",)
    counts = words[:1] == ["xfrm"] and words[2:3] in (["count"], ["list"], ["show"], [])
    if (
        verb in _SHOW_VERBS
        or short
        or counts
        or (any(map(str.isdigit, verb)) and words[0].startswith("r"))
    ):
        call.mark("read", "ip shows")
        if _prints_keys(words):
            call.mark("secret-read", "prints the keys of encrypted connections")
    else:
        what = f"ip {display_text(' '.join(words[:3]))}"
        call.mark("service-change", f"{what} changes the network")
        if _may_cut_off(words):
            call.irreversible(f"{what} may cut the host off")
    return ANY_WORD


_ADDING_VERBS = word_set("add a append set up")


def _may_cut_off(words: list[str]) -> bool:
    """Return whether addresses, routes or links are taken away, or the default route goes
    elsewhere."""
    return "down" in words or "default" in words or not _ADDING_VERBS & set(words[1:2])


def _prints_keys(words: list[str]) -> bool:
    """`ip xfrm state` prints keys; each of its words may be abbreviated."""
    if not words or len(words[0]) > 4 or not "xfrm".startswith(words[0]):
        return False
    objects = [word for word in words[1:2] if "policy".startswith(word)]
    return not objects and not {"count", "nokeys", "help"} & set(words[1:])


def _check_further_words(call: ProgramCall, grammar: OptionGrammar) -> None:
    """Words of run time may be those with which it changes what it otherwise shows."""
    if ANY_WORDS in call.argv or parse_arguments(call.argv[1:], grammar).loose:
        call.dynamic(f"whether {call.program} only shows is known at run time")


def date(call: ProgramCall, entry: ProgramEntry) -> str:
    _check_further_words(call, entry.grammar)
    found = parse_arguments(call.argv[1:], entry.grammar)
    if found.has("-s", "--set") or any(not word.startswith("+") for word in found.words):
        call.mark("service-change", "sets the clock")
    else:
        call.mark("read", "date tells the time")
    if found.value("-f", "--file"):
        call.reads(found.value("-f", "--file") or "")
    formats = [word[1:] for word in found.words if word.startswith("+")]
    return _DATE_FIELD.sub(SYSTEM_NAME, literal_text(formats[-1])) if formats else SYSTEM_NAME


_DATE_FIELD = re.compile(r"%[-_0^#+]*\d*[EO]?:{0,3}[A-Za-z]")
"""Everything else in a format is printed as it is."""


def hostname(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(call.argv[1:], entry.grammar)
    if found.words or found.has("-F", "--file", "-b", "--boot"):
        call.mark("service-change", "renames the machine")
    else:
        call.mark("read", "tells the machine's name")
    return SYSTEM_NAME


def kill(call: ProgramCall, entry: ProgramEntry) -> str:
    """kill, pkill, killall: -0 only checks; -1 and 1 are all processes."""
    words = call.argv[1:]
    signals = {word for word in words if re.fullmatch(r"-(?:\d+|[A-Z]+\d*)|--signal.*", word)}
    asks = words[:1] in (["-l"], ["-L"], ["--list"], ["--table"]) or words[:2] in (["-s", "0"],)
    if (asks and not signals - {"-L"}) or signals == {"-0"}:
        call.mark("read", f"{call.program} asks")
        return ANY_WORD
    call.mark("service-change", f"{call.program} ends or signals processes")
    targets = [word for word in words if not re.match(r"-[A-Z]", word)]
    if call.program == "kill" and ("1" in targets or "-1" in targets[1:] or targets[-1:] == ["-1"]):
        call.irreversible("signals the first process, or all of them")
    if any(has_untrusted_text(word) for word in words):
        call.mark("exec-dynamic", "which process is only known at run time")
    return ""


def sysctl(call: ProgramCall, entry: ProgramEntry) -> str:
    _check_further_words(call, entry.grammar)
    found = parse_arguments(call.argv[1:], entry.grammar)
    if found.has("-w", "--write", "-p", "-f", "--load", "--system") or any(
        "=" in w for w in found.words
    ):
        call.mark("service-change", "sets switches of the kernel")
        _check_kernel_switches(call, found)
    else:
        call.mark("read", "sysctl tells")
    return ANY_WORD


_TUNING_SWITCH = re.compile(
    r"(?:net[./](?:core|netfilter|unix|ipv[46][./](?:tcp_|udp_|neigh|ip_local_))|vm[./](?!mmap_min)"
    r"|fs[./](?:file-max|nr_open|inotify|aio-max-nr|mqueue)"
    r"|kernel[./](?:pid_max|threads-max|sem|shm|msg|sched_|panic))"
)
"""Switches for sizes and times. Others name programs or switch defences off."""


def _check_kernel_switches(call: ProgramCall, found: ParsedArguments) -> None:
    for word in found.words:
        if "=" in word:
            if not _TUNING_SWITCH.match(word):
                call.mark("privilege", f"{display_text(word)} is more than a size or a time")
        elif found.has("-p", "-f", "--load") and not call.path(word).startswith("/etc/sysctl."):
            call.dynamic(f"sysctl sets whatever stands in {display_text(word)}")
    for value in (found.value("-p"), found.value("-f"), found.value("--load")):
        if value and not call.path(value).startswith("/etc/sysctl."):
            call.dynamic(f"sysctl sets whatever stands in {display_text(value)}")


def mount(call: ProgramCall, entry: ProgramEntry) -> str:
    """mount: what fstab names is mounted again; anything else covers a folder with new files."""
    network_interface(call, entry)
    if "service-change" not in call.effects:
        return ANY_WORD
    found = parse_arguments(call.argv[1:], entry.grammar)
    words = " ".join(call.argv[1:])
    remounts = re.search(r"\bremount\b", words) is not None
    if re.search(r"\b(?:exec|suid|dev)\b", words) if remounts else len(found.words) > 1:
        call.mark("privilege", "mount puts other files in the place of a folder, or lets them run")
    return ANY_WORD


def network_interface(call: ProgramCall, entry: ProgramEntry) -> str:
    """ifconfig, route, arp: with a second word they change."""
    apply_table(call, entry)
    _check_further_words(call, entry.grammar)
    found = parse_arguments(call.argv[1:], entry.grammar)
    limit = 1 if call.program in ("ifconfig", "arp", "iwconfig") else 0
    if len(found.words) > limit:
        call.mark("service-change", f"{call.program} changes the network")
    return ANY_WORD


def crontab(call: ProgramCall, entry: ProgramEntry) -> str:
    """crontab: -l shows, -r removes, everything else replaces."""
    found = parse_arguments(call.argv[1:], entry.grammar)
    call.flags = tuple(found.names())
    if found.value("-u"):
        call.mark("privilege", "the timetable of another user")
    if found.has("-l") and not found.has("-r", "-e"):
        call.effects.pop("privilege", None)
        call.mark("read", "lists what will run")
        return ANY_WORD
    if found.has("-r"):
        call.mark("delete", "removes the whole timetable")
        call.irreversible("removes the whole timetable")
        return ANY_WORD
    call.mark("write", "replaces what runs by the clock")
    call.dynamic("what runs by the clock is not read here")
    return ANY_WORD


def service(call: ProgramCall, entry: ProgramEntry) -> str:
    """`service name verb`."""
    words = call.argv[1:]
    if words and words[0] not in ("--status-all",):
        call.set_target(service=words[0])
        if "/" in words[0] or not is_fully_known(words[0]):
            call.dynamic("service runs whatever file the name leads to")
    verb = words[1] if len(words) > 1 else ""
    if verb == "status" or words in (["--status-all"], []):
        call.mark("read", "tells how a service is")
    elif verb in ("configtest", "test", "version", "info"):
        call.mark("read", f"service {verb}")
    else:
        call.mark("service-change", f"service {display_text(' '.join(words[:2]))}")
        _check_guard_services(call, verb, words[:1])
    return ANY_WORD


def service_tool(call: ProgramCall, entry: ProgramEntry) -> str:
    """rc-service, sv and others: the verb stands before or behind the service."""
    apply_table(call, entry)
    words = [word for word in call.argv if not word.startswith("-")]
    words[0] = call.program
    for verb in words:
        _check_guard_services(call, verb, words)
    return ANY_WORD


_ENDING_VERBS = word_set(
    "stop disable mask kill freeze clean del delete remove off down exit force-stop revert"
)
_GUARD_SERVICE = re.compile(
    r"(?:auditd?|r?syslog(?:-ng|d)?|systemd-journald|journald|fail2ban|crowdsec|falco|apparmor"
    r"|selinux|firewalld|ufw|nftables|ip6?tables|netfilter-persistent|wazuh|ossec|osqueryd"
    r"|clamav|tripwire|aide|sysmon|falcon-sensor|cbagentd|hermes|sshd?|dropbear"
    r"|network(?:ing|manager)?|systemd-networkd)(?:[-.@][\w.@-]*)?\Z",
    re.I,
)
"""Services that guard or record the host, or by which people reach it."""
_ENDING_TARGET = re.compile(
    r"(?:poweroff|reboot|soft-reboot|halt|shutdown|kexec|exit|final|umount|rescue|emergency|sleep"
    r"|suspend|hibernate|hybrid-sleep|ctrl-alt-del|runlevel[016]|systemd-(?:poweroff|reboot|halt))"
    r"(?:\.\w+)?\Z"
)


def _check_guard_services(call: ProgramCall, verb: str, names: list[str]) -> None:
    for name in names if verb in _ENDING_VERBS else ():
        if _GUARD_SERVICE.match(name):
            shown = display_text(name)
            call.mark("privilege", f"without {shown} the host is not guarded, recorded or reached")


def systemctl(call: ProgramCall, entry: ProgramEntry) -> str:
    """systemctl: the verbs are in the table; the unit is the target."""
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    if len(found.words) > 1:
        call.set_target(service=found.words[1])
    if "service-change" in call.effects:
        units = found.words[1:]
        _check_guard_services(call, found.words[0] if found.words else "", units)
        if any("/" in unit for unit in units):
            call.dynamic("systemctl runs what stands in a named file")
        if any(map(_ENDING_TARGET.match, units)):
            call.irreversible("stops the machine, or ends its services")
    if found.words[:1] == ["show"]:
        _check_shown_properties(call, found)
    if host := found.value("-H", "--host"):
        call.set_target(host=host)
    return ANY_WORD


_PROPERTIES_WITH_SECRETS = word_set("Environment SetCredential SetCredentialEncrypted")
_UNITS_WITHOUT_ENVIRONMENT = (".target", ".timer", ".path", ".device", ".slice", ".scope")


def _check_shown_properties(call: ProgramCall, found: ParsedArguments) -> None:
    """`systemctl show` prints the environment of units, unless it is told what else to print."""
    asked = found.values("-p", "-P", "--property", "--value")
    names = {name for value in asked for name in value.split(",")}
    if names and not any(map(has_untrusted_text, names)) and not names & _PROPERTIES_WITH_SECRETS:
        return
    units = found.words[1:]
    if units and all(unit.endswith(_UNITS_WITHOUT_ENVIRONMENT) for unit in units):
        return
    call.mark("secret-read", "prints the environment of units, passwords and all")


def init(call: ProgramCall, entry: ProgramEntry) -> str:
    """`init 0`."""
    call.mark("service-change", f"{call.program} changes what the machine runs")
    if {"0", "6", "1", "s", "S"} & set(call.argv[1:]) or call.program != "init":
        call.irreversible("stops the machine")
    return ""
