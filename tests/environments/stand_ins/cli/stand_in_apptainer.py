"""Stand-in for apptainer (1.4) and singularity, as far as Hermes uses them."""

import os
import sys

from stand_in_program import Container, asked_for, containers, flags, give_up, note, say

START = {
    "--memory", "--cpus", "--pids-limit", "--network", "--bind", "--env", "--home", "--hostname",
    "--memory-swap", "--overlay", "--scratch", "--security", "--workdir", "--drop-caps",
}  # fmt: skip
START_BARE = {
    "--containall", "--contain", "--no-home", "--writable-tmpfs", "--cleanenv", "--no-privs",
    "--net", "--userns", "--fakeroot", "--ipc", "--uts", "--writable", "--no-init", "--help",
}  # fmt: skip
NEW = {"--memory", "--cpus", "--pids-limit"}
"""Flags that programs of before 2022 do not have."""
EXEC = {"--env", "--env-file", "--pwd", "--bind", "--workdir"}
EXEC_BARE = {"--cleanenv", "--no-home", "--containall", "--pid", "--no-eval"}


def main(arguments: list[str]) -> None:
    note(arguments)
    if arguments == ["version"]:
        say("1.4.0")
    elif arguments[:2] == ["instance", "start"]:
        start(arguments[2:])
    elif arguments[:2] == ["instance", "stop"]:
        stop(arguments[2:])
    elif arguments[:2] == ["instance", "list"]:
        listed(arguments[2:])
    elif arguments[:1] == ["exec"]:
        run(arguments[1:])
    else:
        give_up(f'Error: unknown command "{" ".join(arguments[:2])}" for "apptainer"')


def start(arguments: list[str]) -> None:
    old = asked_for("old")
    given, rest = flags(arguments, START - NEW if old else START, START_BARE, anywhere=False)
    if "--help" in given:
        known = START_BARE | START - (NEW if old else set())
        say("\n".join(f"      {name}" for name in sorted(known)))
        return
    if len(rest) < 2:
        give_up('Error for command "start": requires at least 2 arg(s)')
    image, name = rest[:2]
    if "--network" in given and "--net" not in given:
        give_up("FATAL:   --network requires --net", 255)
    if float(given.get("--cpus", 1)) > (os.cpu_count() or 1):
        give_up("FATAL:   while getting cgroups configuration: cpus value must be in range", 255)
    if asked_for("no-cgroups") and NEW & given.keys():
        give_up("FATAL:   while applying cgroups config: cgroups not supported for this user", 255)
    if asked_for("no-image"):
        give_up(f"FATAL:   Unable to handle {image} uri: failed to get checksum", 255)
    container = Container(name)
    if container.there:
        give_up(f"FATAL:   a container already exists with name {name}", 255)
    container.make()
    give_up("INFO:    instance started successfully", 0)


def run(arguments: list[str]) -> None:
    given, rest = flags(arguments, EXEC, EXEC_BARE, anywhere=False)
    if len(rest) < 2:
        give_up('Error for command "exec": requires at least 2 arg(s)')
    image, *command = rest
    container = Container(image.removeprefix("instance://"))
    if not image.startswith("instance://") or not container.there:
        give_up(f"FATAL:   no instance found with name {container.name}", 255)
    if asked_for("nobody") == container.name:  # a real instance has processes of its own
        os._exit(1)
    ours = {} if "--cleanenv" in given else dict(os.environ)
    container.enter()
    try:
        if asked_for("no-bash"):
            raise FileNotFoundError
        os.execvpe(command[0], command, {**ours, **container.variables()})
    except FileNotFoundError:
        give_up(f'FATAL:   "{command[0]}": executable file not found in $PATH', 255)


def listed(arguments: list[str]) -> None:
    given, rest = flags(arguments, set(), {"--json"}, anywhere=True)
    found = [f'{{"instance": "{name}", "pid": 1, "img": "x"}}' for name in containers(*rest)]
    say(f'{{"instances": [{", ".join(found)}]}}' if "--json" in given else "INSTANCE NAME")


def stop(arguments: list[str]) -> None:
    _, rest = flags(arguments, {"--timeout", "--signal"}, {"--force"}, anywhere=True)
    if len(rest) != 1 or not Container(rest[0]).there:
        give_up("FATAL:   no instance found", 255)
    Container(rest[0]).end()
    give_up(f"INFO:    Stopping {rest[0]} instance", 0)


if __name__ == "__main__":
    main(sys.argv[1:])
