"""Stand-in for kubectl (1.31) with a cluster behind it, as far as Hermes uses them."""

# Hundreds of these are started in a test run, and pathlib would double the time it takes.
# ruff: noqa: PTH118, PTH123

import os
import sys

from stand_in_program import HOME, Container, asked_for, flags, give_up, note, say

CONTEXTS = ("stand-in", "other")
LONGEST = 8000
"""Bytes of a command: they travel in the URL, and proxies are strict about that."""
VOLUME = {"name": str, "emptyDir": {"sizeLimit": str}}
CONTAINER: dict[str, object] = {
    "name": str, "image": str, "command": [str], "workingDir": str,
    "env": [{"name": str, "value": str}],
    "resources": {"limits": {"memory": str, "cpu": str}, "requests": {"memory": str, "cpu": str}},
    "securityContext": {
        "allowPrivilegeEscalation": bool, "privileged": bool, "capabilities": {"drop": [str]},
    },
    "volumeMounts": [{"name": str, "mountPath": str}],
}  # fmt: skip
POD: dict[str, object] = {
    "apiVersion": str, "kind": str, "metadata": {"name": str, "labels": dict},
    "spec": {
        "restartPolicy": str, "activeDeadlineSeconds": int, "terminationGracePeriodSeconds": int,
        "automountServiceAccountToken": bool, "enableServiceLinks": bool,
        "securityContext": {
            "runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "fsGroup": int,
            "seccompProfile": {"type": str},
        },
        "containers": [CONTAINER], "volumes": [VOLUME],
    },
}  # fmt: skip
"""Fields of a Pod and their types; the server refuses all others."""


def main(arguments: list[str]) -> None:
    note(arguments)
    given, rest = flags(
        arguments,
        {"--context", "--namespace", "--container", "--filename", "--for", "--timeout", "--output",
         "--subresource", "--selector", "--field-selector"},
        {"--stdin", "--tty", "--now", "--wait", "--ignore-not-found", "--quiet"},
        anywhere=True,
    )  # fmt: skip
    verb, *words = rest
    if rest == ["config", "current-context"]:
        if asked_for("no-context"):
            give_up("error: current-context is not set")
        say(CONTEXTS[0])
        return
    if given.get("--context", CONTEXTS[0]) not in CONTEXTS:
        give_up(f'error: context "{given["--context"]}" does not exist')
    if asked_for("down"):
        give_up(
            "The connection to the server 127.0.0.1:6443 was refused - did you specify the port?"
        )
    verbs = {
        "create": create, "wait": wait, "get": get, "exec": run, "delete": delete, "auth": auth,
    }  # fmt: skip
    if verb not in verbs:
        give_up(f'error: unknown command "{verb}" for "kubectl"')
    verbs[verb](given, words)


def create(given: dict[str, str], words: list[str]) -> None:
    if given.get("--filename") != "-":
        give_up("error: must specify --filename")
    import json  # noqa: PLC0415 - most calls are over before it would be loaded

    pod = json.load(sys.stdin)
    check(pod, POD, "")
    if asked_for("forbidden"):
        give_up(f"Error from server (Forbidden): {asked_for('forbidden')}")
    container = Container(pod["metadata"]["name"])
    container.make()
    with open(os.path.join(container.folder, "names"), "w") as file:
        file.write("\n".join(each["name"] for each in pod["spec"]["containers"]))
    with open(os.path.join(HOME, "last-pod.json"), "w") as file:
        json.dump(pod, file)
    say(f"pod/{container.name} created")


def check(value: object, wanted: object, path: str) -> None:
    if isinstance(wanted, dict):
        for name, inner in value.items():
            if name not in wanted:
                give_up(f'Error from server (BadRequest): unknown field "{path}{name}"')
            check(inner, wanted[name], f"{path}{name}.")
    elif isinstance(wanted, list):
        for inner in value:
            check(inner, wanted[0], path)
    elif type(value) is not wanted:
        give_up(f"Error from server (BadRequest): json: cannot unmarshal into field {path}")


def pod_of(words: list[str], *, prefix: str = "pod/") -> Container:
    if len(words) != 1 or not words[0].startswith(prefix):
        give_up(f"error: expected one {prefix or 'pod'} and not {words}")
    container = Container(words[0].removeprefix(prefix))
    if not container.there:
        give_up(f'Error from server (NotFound): pods "{container.name}" not found')
    return container


def wait(given: dict[str, str], words: list[str]) -> None:
    container = pod_of(words)
    if given.get("--for") != "condition=Ready" or not given.get("--timeout", "").endswith("s"):
        give_up("error: unrecognized condition")
    if asked_for("never-ready"):
        give_up(f"error: timed out waiting for the condition on pods/{container.name}")
    say(f"pod/{container.name} condition met")


def get(given: dict[str, str], words: list[str]) -> None:
    pod_of(words)
    if not given.get("--output", "").startswith("jsonpath={"):
        give_up("error: unable to match a printer suitable for the output format")
    phase = given["--output"] == "jsonpath={.status.phase}"
    sys.stdout.write("Running" if phase else asked_for("never-ready") or "")


def run(given: dict[str, str], words: list[str]) -> None:
    if "--" not in words:
        give_up("error: exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND]")
    at = words.index("--")
    container, command = pod_of(words[:at], prefix=""), words[at + 1 :]
    with open(os.path.join(container.folder, "names")) as file:
        names = file.read().split()
    if given.get("--container", names[0]) not in names:
        give_up(f"error: container {given['--container']} not found in pod {container.name}")
    if sum(len(word) for word in command) > LONGEST:
        give_up("error: unable to upgrade connection: 414 URI Too Long")
    if asked_for("no-bash"):
        give_up(
            'OCI runtime exec failed: exec: "bash": executable file not found in $PATH\n'
            "command terminated with exit code 127",
            127,
        )
    container.enter()
    if "--stdin" not in given:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if "--tty" in given:
        if not os.isatty(0):
            give_up("Unable to use a TTY - input is not a terminal or the right kind of file")
        code = in_terminal(command, container.variables())
    else:
        code = os.spawnvpe(os.P_WAIT, command[0], command, container.variables())
    if asked_for("cut"):  # a connection that breaks is a success to kubectl
        os._exit(0)
    if code:
        give_up(f"command terminated with exit code {code}", code)


def in_terminal(command: list[str], variables: dict[str, str]) -> int:
    """The terminal over there is another than ours, and what passes between is not changed."""
    import pty  # noqa: PLC0415 - see above
    import select  # noqa: PLC0415 - see above

    pid, there = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, variables)
    while True:
        for ready in select.select([0, there], [], [])[0]:
            try:
                data = os.read(ready, 65_536)
            except OSError:
                data = b""
            if not data:
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(there if ready == 0 else 1, data)


def delete(given: dict[str, str], words: list[str]) -> None:
    if words == ["pods"] and "--selector" in given:
        return
    container = Container(words[0].removeprefix("pod/"))
    if container.there:
        container.end()
        say(f'pod "{container.name}" deleted')
    elif "--ignore-not-found" not in given:
        give_up(f'Error from server (NotFound): pods "{container.name}" not found')


def auth(given: dict[str, str], words: list[str]) -> None:
    if words != ["can-i", "create", "pods"]:
        give_up(f"error: unexpected {words}")
    if asked_for("forbidden"):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
