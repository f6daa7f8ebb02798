"""docker, podman and kubectl: commands in containers, and access to the host."""

import re

from hermes.policy.commands import assignments
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    starts_unknown,
)
from hermes.policy.commands.tables import (
    OptionGrammar,
    ParsedArguments,
    ProgramEntry,
    find_program,
    parse_arguments,
)
from hermes.policy.programs.addresses import mark_address
from hermes.policy.programs.system import mark_printed_environment
from hermes.policy.programs.table_effects import apply_table

_HOST_MOUNT = re.compile(r"(?:type=bind,)?(?:source=|src=)?(/[^:,]*|~[^:,]*|\$HOME[^:,]*)[:,]")


def docker(call: ProgramCall, entry: ProgramEntry) -> str:
    words = parse_arguments(
        call.argv[1:], OptionGrammar(entry.grammar.values, stops=1, stops_immediately=True)
    )
    verb = words.words[0] if words.words else ""
    rest = words.rest
    call.flags = tuple(words.names())
    if host := words.value("-H", "--host", "-c", "--context", "--connection", "--url"):
        call.set_target(context=host)
    for server in words.values("-H", "--host", "--url"):
        if not _LOCAL_DAEMON.fullmatch(server):
            call.mark("network-out", f"sends its commands to {display_text(server)}")
    if words.has("--config"):
        call.dynamic("a configuration of its own brings its own plug-ins")
    if verb == "container" and rest[:1] in (["exec"], ["run"], ["create"]):
        verb, rest = rest[0], rest[1:]
    if verb == "compose" or call.program in ("docker-compose", "podman-compose"):
        return _judge_compose(call, entry, [verb, *rest] if verb != "compose" else rest)
    if verb == "exec":
        return _exec(call, rest)
    if verb in ("run", "create"):
        return _start_container(call, rest)
    apply_table(call, entry)
    _check_printed(call, verb, rest)
    return SYSTEM_NAME if _prints_numbers(verb, rest) else ANY_WORD


def _check_printed(call: ProgramCall, verb: str, rest: list[str]) -> None:
    if verb == "inspect" or rest[:1] == ["inspect"]:
        _check_inspect(call, verb, rest)
    elif verb == "top":
        mark_printed_environment(call, rest[1:])
    elif rest[:1] == ["top"]:
        mark_printed_environment(call, rest[2:])


_NUMBER_VERBS = frozenset({"ps", "images", "container", "image"})
_QUIET_OPTION = re.compile(r"-[aln]*q[aln]*|--quiet")
_NUMBER_FORMAT = re.compile(
    r"\{\{ *\.(?:Id|ID|RestartCount|State\.(?:Pid|Status|Running|ExitCode)) *\}\}"
)


def _prints_numbers(verb: str, rest: list[str]) -> bool:
    """`docker ps -q` prints the numbers of containers, and nothing else."""
    if verb == "inspect":
        return any(_NUMBER_FORMAT.fullmatch(word.removeprefix("--format=")) for word in rest)
    return (
        verb in _NUMBER_VERBS
        and any(map(_QUIET_OPTION.fullmatch, rest))
        and not any(word.startswith("--format") or has_untrusted_text(word) for word in rest)
    )


_LOCAL_DAEMON = re.compile(r"unix:///(?:var/)?run/[\w./-]+\.sock|ssh://[\w.@-]+(?::\d+)?")
"""Sockets of this machine, and hosts to which the user's own keys give access."""
_FORMAT_ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.S)
_FORMAT_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|:=|[$.]?[\w.$]*[\w$.]|[^\s\w]')
_FORMAT_WORD = re.compile(
    r"json|range|end|if|else|with|len|index|eq|ne|and|or|not|printf|println|print|join|split|upper"
    r"|lower|title|truncate|pad|slice|true|false|-?\d+|\$\w+|[,():|=]|:=|\".*|`.*",
    re.S,
)
_HARMLESS_FIELD = re.compile(
    r"\$?\.(?:State|NetworkSettings|Mounts|Name|Id|ID|Image|ImageName|Created|Path|Args|RestartCount"
    r"|Driver|Platform|LogPath|SizeRw|SizeRootFs|RepoTags|RepoDigests|Size|Architecture|Os"
    r"|HostConfig\.(?!LogConfig)\w+|Config\.(?!Env\b)\w+)(?:\.[\w.]+)?"
)
"""Fields of a container without its environment and the options of its log driver."""
_OBJECTS_WITHOUT_ENVIRONMENT = (
    "network",
    "volume",
    "node",
    "image",
    "context",
    "manifest",
    "plugin",
    "pod",
)


def _check_inspect(call: ProgramCall, verb: str, rest: list[str]) -> None:
    """A container's environment may contain passwords; a format with other fields does not."""
    if verb in _OBJECTS_WITHOUT_ENVIRONMENT:
        return
    spec = parse_arguments(call.argv[1:], OptionGrammar(frozenset({"-f", "--format", "--type"})))
    form = spec.value("-f", "--format")
    if spec.value("--type") in _OBJECTS_WITHOUT_ENVIRONMENT:
        return
    if form is None or has_untrusted_text(form) or not _prints_harmless_fields(form):
        call.mark("secret-read", "prints the environment of a container, passwords and all")


def _prints_harmless_fields(form: str) -> bool:
    """Return whether all that a format prints are listed fields, or parts of them in `range` or
    `with`."""
    depth = 0
    actions = _FORMAT_ACTION.findall(form)
    for action in actions:
        tokens = _FORMAT_TOKEN.findall(action)
        opens = tokens[:1] in (["range"], ["with"])
        for token in tokens:
            inside = depth > 0 and not opens and re.fullmatch(r"\.[\w.]*", token)
            if not (inside or _HARMLESS_FIELD.fullmatch(token) or _FORMAT_WORD.fullmatch(token)):
                return False
        if tokens[:1] == ["else"]:
            depth = 0  # what follows is about the whole container again
        depth += opens - (depth > 0 and tokens[:1] == ["end"])
    return bool(actions) and "{{" not in _FORMAT_ACTION.sub("", form)


def _exec(call: ProgramCall, rest: list[str]) -> str:
    spec = find_program("docker exec")
    found = parse_arguments(
        rest,
        OptionGrammar(
            spec.grammar.values if spec else frozenset(), stops=1, stops_immediately=True
        ),
    )
    call.set_target(container=found.words[0] if found.words else ANY_WORD)
    if found.has("--privileged"):
        call.mark("privilege", "--privileged")
    for name, _, value in (each.partition("=") for each in found.values("-e", "--env")):
        assignments.check_assignment(call, name, value)
    for file in found.values("--env-file"):
        call.reads(file)
    if not found.rest:
        call.dynamic("a shell in a container")
        return ANY_WORD
    return call.run(found.rest, scope=call.scope.for_other_machine())


def _start_container(call: ProgramCall, rest: list[str]) -> str:
    spec = find_program("docker run")
    found = parse_arguments(
        rest,
        OptionGrammar(
            spec.grammar.values if spec else frozenset(), stops=1, stops_immediately=True
        ),
    )
    image = found.words[0] if found.words else ANY_WORD
    call.set_target(container=image)
    what = f"starts a container from {display_text(image)}"
    call.mark_all(("service-change", "exec-dynamic"), what)
    _check_host_access(call, found)
    if entrypoint := found.value("--entrypoint"):
        return call.run([entrypoint, *found.rest], scope=call.scope.for_other_machine())
    if found.rest:
        return call.run(found.rest, scope=call.scope.for_other_machine())
    return ANY_WORD


def _check_host_access(call: ProgramCall, found: ParsedArguments) -> None:
    """Options that let a container reach its host."""
    for mount in found.values("-v", "--volume", "--mount"):
        path = _HOST_MOUNT.search(mount + ":")
        if path:
            call.mark(
                "privilege", f"the container can change {display_text(path.group(1))} of the host"
            )
            if call.analyst.classifier.is_own_file(call.path(path.group(1)), tree=True):
                call.own(path.group(1))
    wide = found.names() & {
        "--privileged",
        "--device",
        "--cap-add",
        "--security-opt",
        "--volumes-from",
    }
    for name, value in found.options:
        if (
            name in ("--pid", "--net", "--network", "--ipc", "--userns", "--uts")
            and value == "host"
        ):
            wide.add(f"{name}=host")
    if wide:
        call.mark("privilege", f"{', '.join(sorted(wide))} opens the host to the container")


def _judge_compose(call: ProgramCall, entry: ProgramEntry, words: list[str]) -> str:
    spec = find_program("docker compose")
    if spec is None:
        return ANY_WORD
    found = parse_arguments(
        words, OptionGrammar(spec.grammar.values, stops=1, stops_immediately=True)
    )
    verb = found.words[0] if found.words else ""
    if verb in ("exec", "run"):
        inner = parse_arguments(
            found.rest,
            OptionGrammar(
                spec.grammar.values | _COMPOSE_EXEC_OPTIONS, stops=1, stops_immediately=True
            ),
        )
        call.set_target(container=inner.words[0] if inner.words else ANY_WORD)
        if verb == "run":
            call.mark("service-change", "starts a container")
        if not inner.rest:
            call.dynamic("a shell in a container")
            return ANY_WORD
        return call.run(inner.rest, scope=call.scope.for_other_machine())
    call.argv = ["docker compose", *words]
    call.program = "docker compose"
    apply_table(call, spec)
    return ANY_WORD


_COMPOSE_EXEC_OPTIONS = frozenset(
    {"-u", "--user", "-e", "--env", "-w", "--workdir", "--index", "-v", "--volume"}
)


def kubectl(call: ProgramCall, entry: ProgramEntry) -> str:
    found = parse_arguments(
        call.argv[1:], OptionGrammar(entry.grammar.values, stops=1, stops_immediately=True)
    )
    verb = found.words[0] if found.words else ""
    call.flags = tuple(found.names())
    _check_log_level(call, found)
    if verb in ("exec", "debug", "run", "attach"):
        return _judge_pod_command(call, entry, verb, found)
    apply_table(call, entry)
    own = find_program(f"kubectl {verb}")
    inner = parse_arguments(call.argv[1:], own.under(entry) if own else entry.grammar)
    _check_log_level(call, inner)
    _set_kubernetes_target(call, inner)
    if server := found.value("-s", "--server") or inner.value("-s", "--server"):
        call.mark("network-out", f"logs in to {display_text(server)}")
    _check_named_files(call, inner)
    if verb == "apply" and inner.words[1:2] == ["view-last-applied"]:
        _check_last_applied(call, inner)
    if verb in ("get", "describe", "view-secret"):
        _check_secrets(call, inner)
        if verb == "get" and len(inner.words) == 2 and starts_unknown(inner.words[1]):
            call.mark("secret-read", "a word only known at run time may be --raw with any address")
        _check_raw_request(call, inner.value("--raw") or "")
    elif inner.has("--raw") and verb != "config":
        call.mark("service-change", f"kubectl {display_text(verb)} --raw, which knows no dry run")
    changes = "service-change" in call.effects
    if verb in ("scale", "autoscale") and changes and inner.value("--replicas", "--max") == "0":
        call.irreversible("scales to nothing")
        call.mark("delete", "scales to nothing")
    if verb == "delete" and "delete" in call.effects:
        _check_delete(call, inner)
    printed = inner.value("-o", "--output") or ""
    return SYSTEM_NAME if verb == "get" and _NAME_OUTPUT.fullmatch(printed) else ANY_WORD


_NAME_OUTPUT = re.compile(
    r"=?name|jsonpath=(?:\{(?:range \.items\[\*\]|end|\"(?:\\n| )\")\}"
    r"|\{(?:\.items\[[*\d]*\])?\.(?:metadata\.(?:name|namespace|uid)|spec\.nodeName)\}|[ \n])+"
)
"""Output of names, which the server allows no spaces and no leading dash in."""


_BODY_LOG_LEVEL = 8
"""From this level on kubectl prints its requests, and the answers with all that is in them."""


def _check_log_level(call: ProgramCall, found: ParsedArguments) -> None:
    for level in found.values("-v", "--v", "--loglevel"):
        number = level.lstrip("=")
        if not (number.isascii() and number.isdigit()) or int(number) >= _BODY_LOG_LEVEL:
            call.mark("secret-read", f"prints its requests at log level {display_text(number)}")


def _check_named_files(call: ProgramCall, inner: ParsedArguments) -> None:
    """Files and addresses whose content it prints or sends."""
    for word in call.argv[1:]:
        if re.match(r"(?:-[\w-]+=)?https?://", word) and not word.startswith(("-s", "--server")):
            mark_address(call, word.partition("=")[2] if word.startswith("-") else word)
    for file in inner.values("--from-file", "--from-env-file"):
        path = file.rpartition("=")[2]
        call.reads(path)
        if call.analyst.classifier.may_hold_secret_file(call.path(path)):
            call.mark("secret-read", f"prints all files in {display_text(path)}")
    for form in inner.values("-o", "--output"):
        kind, equals, file = form.lstrip("=").partition("=")
        if equals and kind.endswith("-file"):
            call.reads(file)


def _check_raw_request(call: ProgramCall, request: str) -> None:
    raw = re.sub(r"%([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), request)
    if re.search(r"(?i)/secrets?\b", raw):
        call.mark("secret-read", f"prints {display_text(raw)}")
    if re.search(r"/(?:exec|attach|portforward|run)\b", raw):
        call.dynamic(f"{display_text(raw)} runs a program in a pod")
    if "/proxy" in raw or has_untrusted_text(raw):
        call.mark("network-out", f"passes a request on to {display_text(raw)}")


def _set_kubernetes_target(call: ProgramCall, found: ParsedArguments) -> None:
    for key, names in (
        ("namespace", ("-n", "--namespace")),
        ("context", ("--context", "--cluster")),
    ):
        if value := found.value(*names):
            call.set_target(**{key: value})


def _check_secrets(call: ProgramCall, found: ParsedArguments) -> None:
    kinds = [kind for word in found.words[1:] for kind in word.lower().split(",")]
    from_file = found.has("-f", "--filename", "-k", "--kustomize")  # it may name any kind
    if not from_file and not any(
        kind.startswith(("secret", "sealedsecret")) or has_untrusted_text(kind) for kind in kinds
    ):
        return
    output = (found.value("-o", "--output", "--template") or "").lstrip("=")
    if _PUBLIC_CERTIFICATES.fullmatch(output) and not found.has("--template"):
        return
    shows = output and not re.match(r"(?:wide|name)\Z|custom-columns=(?!.*data)", output)
    if shows or found.has("--template"):
        call.mark("secret-read", f"prints secrets as {display_text(output)}")


_PUBLIC_CERTIFICATES = re.compile(
    r"go-template=(?:\{\{(?:range \.items|end|\.metadata\.(?:name|namespace)|\"\\[tn]\""
    r"|index \.data \"tls\.crt\")\}\})+"
)
"""A template that prints names and certificates of TLS secrets: these are public, keys are not."""


def _check_last_applied(call: ProgramCall, found: ParsedArguments) -> None:
    kinds = [word.lower() for word in found.words[2:]]
    from_file = found.has("-f", "--filename")
    if from_file or any(kind.startswith("secret") or has_untrusted_text(kind) for kind in kinds):
        call.mark("secret-read", "prints what was last applied, secrets too")


def _check_delete(call: ProgramCall, found: ParsedArguments) -> None:
    mild = {"pod", "pods", "po", "job", "jobs", "event", "events"}
    kind = found.words[1].partition("/")[0] if len(found.words) > 1 else ""
    wide = found.has("--all", "-A", "--all-namespaces", "-l", "--selector")
    if kind not in mild or wide or found.has("--force"):
        call.irreversible(f"kubectl delete {display_text(kind)}")


def _judge_pod_command(
    call: ProgramCall, entry: ProgramEntry, verb: str, outer: ParsedArguments
) -> str:
    words = call.argv[1:]
    command = words[words.index("--") + 1 :] if "--" in words else []
    head = words[: words.index("--")] if "--" in words else words
    spec = find_program(f"kubectl {verb}")
    found = parse_arguments(head, spec.under(entry) if spec else entry.grammar)
    _set_kubernetes_target(call, found)
    named = found.words[1:]
    if not command and verb == "exec":
        command = named[1:]
    call.set_target(container=named[0] if named else ANY_WORD)
    if verb in ("debug", "run"):
        call.mark("service-change", f"kubectl {verb} starts a container")
    if verb == "debug":
        call.mark("privilege", "kubectl debug enters a pod or node")
    if verb == "run" and found.has("--overrides", "--privileged"):
        call.mark("privilege", "kubectl run with rights of its own")
    if not command:
        call.dynamic(f"kubectl {verb} without a command opens a shell or runs the image's own")
        return ANY_WORD
    return call.run(command, scope=call.scope.for_other_machine())
