"""docker, podman and kubectl: commands inside other places, and doors back to the host."""

import re

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, foreign, shown
from hermes.policy.commands.options import Arguments, Grammar, split
from hermes.policy.commands.tables import Program, program

_HOST_PATHS = re.compile(r"(?:type=bind,)?(?:source=|src=)?(/[^:,]*|~[^:,]*|\$HOME[^:,]*)[:,]")


def docker(call: Call, entry: Program) -> str:
    words = split(call.argv[1:], Grammar(entry.grammar.values, stops=1, at_once=True))
    verb = words.words[0] if words.words else ""
    rest = words.rest
    call.flags = tuple(words.names())
    if host := words.value("-H", "--host", "-c", "--context"):
        call.aim(context=host)
    if words.has("--config"):
        call.dynamic("a configuration of its own brings its own plug-ins")
    if verb == "container" and rest[:1] in (["exec"], ["run"], ["create"]):
        verb, rest = rest[0], rest[1:]
    if verb == "compose" or call.program in ("docker-compose", "podman-compose"):
        return _compose(call, entry, [verb, *rest] if verb != "compose" else rest)
    if verb == "exec":
        return _exec(call, rest)
    if verb in ("run", "create"):
        return _start(call, rest)
    by_table(call, entry)
    if verb == "inspect" or rest[:1] == ["inspect"]:
        _inspected(call, verb, rest)
    return ANY


_SHOWS_ENVIRONMENT = re.compile(r"\.Env\b|\{\{\s*(?:json\s+)?\.(?:Config)?\s*\}\}|index\s+\.Config")
_WITHOUT_ENVIRONMENT = (
    "network",
    "volume",
    "node",
    "image",
    "context",
    "manifest",
    "plugin",
    "pod",
)


def _inspected(call: Call, verb: str, rest: list[str]) -> None:
    """A container's environment holds its passwords; a format that names other fields does not."""
    if verb in _WITHOUT_ENVIRONMENT:
        return
    spec = split(call.argv[1:], Grammar(frozenset({"-f", "--format", "--type"})))
    form = spec.value("-f", "--format")
    if spec.value("--type") in _WITHOUT_ENVIRONMENT:
        return
    if form is None or foreign(form) or _SHOWS_ENVIRONMENT.search(form):
        call.mark("secret-read", "prints the environment of a container, passwords and all")


def _exec(call: Call, rest: list[str]) -> str:
    spec = program("docker exec")
    found = split(
        rest, Grammar(spec.grammar.values if spec else frozenset(), stops=1, at_once=True)
    )
    call.aim(container=found.words[0] if found.words else ANY)
    if found.has("--privileged"):
        call.mark("privilege", "--privileged")
    if not found.rest:
        call.dynamic("a shell in a container")
        return ANY
    return call.run(found.rest, scope=call.scope.elsewhere())


def _start(call: Call, rest: list[str]) -> str:
    spec = program("docker run")
    found = split(
        rest, Grammar(spec.grammar.values if spec else frozenset(), stops=1, at_once=True)
    )
    image = found.words[0] if found.words else ANY
    call.aim(container=image)
    call.mark("service-change", f"starts a container from {shown(image)}")
    _doors(call, found)
    if entrypoint := found.value("--entrypoint"):
        return call.run([entrypoint, *found.rest], scope=call.scope.elsewhere())
    if found.rest:
        return call.run(found.rest, scope=call.scope.elsewhere())
    return ANY


def _doors(call: Call, found: Arguments) -> None:
    """Options that let a container reach its host."""
    for mount in found.values("-v", "--volume", "--mount"):
        path = _HOST_PATHS.search(mount + ":")
        if path:
            call.mark("privilege", f"the container can change {shown(path.group(1))} of the host")
            if call.analyst.places.ours(call.path(path.group(1)), tree=True):
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


def _compose(call: Call, entry: Program, words: list[str]) -> str:
    spec = program("docker compose")
    if spec is None:
        return ANY
    found = split(words, Grammar(spec.grammar.values, stops=1, at_once=True))
    verb = found.words[0] if found.words else ""
    if verb in ("exec", "run"):
        inner = split(
            found.rest, Grammar(spec.grammar.values | _COMPOSE_EXEC, stops=1, at_once=True)
        )
        call.aim(container=inner.words[0] if inner.words else ANY)
        if verb == "run":
            call.mark("service-change", "starts a container")
        if not inner.rest:
            call.dynamic("a shell in a container")
            return ANY
        return call.run(inner.rest, scope=call.scope.elsewhere())
    call.argv = ["docker compose", *words]
    call.program = "docker compose"
    by_table(call, spec)
    return ANY


_COMPOSE_EXEC = frozenset(
    {"-u", "--user", "-e", "--env", "-w", "--workdir", "--index", "-v", "--volume"}
)


def kubectl(call: Call, entry: Program) -> str:
    found = split(call.argv[1:], Grammar(entry.grammar.values, stops=1, at_once=True))
    verb = found.words[0] if found.words else ""
    call.flags = tuple(found.names())
    if verb in ("exec", "debug", "run", "attach"):
        return _inside(call, entry, verb, found)
    by_table(call, entry)
    own = program(f"kubectl {verb}")
    inner = split(call.argv[1:], own.under(entry) if own else entry.grammar)
    _where(call, inner)
    if verb in ("get", "describe", "view-secret"):
        _secrets(call, inner)
        raw = inner.value("--raw") or ""
        if re.search(r"/secrets?\b", raw):
            call.mark("secret-read", f"prints {shown(raw)}")
        if "/proxy" in raw or foreign(raw):
            call.mark("network-out", f"passes a request on to {shown(raw)}")
    changes = "service-change" in call.effects
    if verb in ("scale", "autoscale") and changes and inner.value("--replicas", "--max") == "0":
        call.irreversible("scales to nothing")
        call.mark("delete", "scales to nothing")
    if verb == "delete" and "delete" in call.effects:
        _deleted(call, inner)
    return ANY


def _where(call: Call, found: Arguments) -> None:
    for key, names in (
        ("namespace", ("-n", "--namespace")),
        ("context", ("--context", "--cluster")),
    ):
        if value := found.value(*names):
            call.aim(**{key: value})


def _secrets(call: Call, found: Arguments) -> None:
    kinds = [kind for word in found.words[1:] for kind in word.lower().split(",")]
    if not any(kind.startswith(("secret", "sealedsecret")) or foreign(kind) for kind in kinds):
        return
    output = (found.value("-o", "--output", "--template") or "").lstrip("=")
    shows = output and not re.match(r"(?:wide|name)\Z|custom-columns=(?!.*data)", output)
    if shows or found.has("--template"):
        call.mark("secret-read", f"prints secrets as {shown(output)}")


def _deleted(call: Call, found: Arguments) -> None:
    mild = {"pod", "pods", "po", "job", "jobs", "event", "events"}
    kind = found.words[1].partition("/")[0] if len(found.words) > 1 else ""
    wide = found.has("--all", "-A", "--all-namespaces", "-l", "--selector")
    if kind not in mild or wide or found.has("--force"):
        call.irreversible(f"kubectl delete {shown(kind)}")


def _inside(call: Call, entry: Program, verb: str, outer: Arguments) -> str:
    words = call.argv[1:]
    command = words[words.index("--") + 1 :] if "--" in words else []
    head = words[: words.index("--")] if "--" in words else words
    spec = program(f"kubectl {verb}")
    found = split(head, spec.under(entry) if spec else entry.grammar)
    _where(call, found)
    named = found.words[1:]
    if not command and verb == "exec":
        command = named[1:]
    call.aim(container=named[0] if named else ANY)
    if verb in ("debug", "run"):
        call.mark("service-change", f"kubectl {verb} starts a container")
    if verb == "debug":
        call.mark("privilege", "kubectl debug enters a pod or node")
    if verb == "run" and found.has("--overrides", "--privileged"):
        call.mark("privilege", "kubectl run with rights of its own")
    if not command:
        call.dynamic(f"kubectl {verb} without a command opens a shell or runs the image's own")
        return ANY
    return call.run(command, scope=call.scope.elsewhere())
