"""`hermes completion`: the script that lets a shell finish our words."""

from pathlib import Path

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import say
from hermes.settings import process
from hermes.settings.files import unwritable

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HERMES_COMPLETE"


@click.command(
    cls=Examples,
    examples="""
eval "$(hermes completion bash)"        for this shell only
hermes completion zsh --install         for good
""",
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Put it where the shell looks for it.")
def completion(shell: str | None, install: bool) -> None:
    """Print the completion script for SHELL; without SHELL, for the one you use."""
    shell = shell or _current()
    script = script_for(shell)
    if not install:
        say(script)
        return
    file = files()[shell]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from error
    say(f"written to {file}; open a new shell")
    if shell == "zsh":
        say(f"zsh must look there: put `fpath+=({file.parent})` before `compinit` in ~/.zshrc")


def script_for(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from hermes.cli.front import root

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(root, {}, "hermes", VARIABLE).source()


def files() -> dict[str, Path]:
    """Where each shell looks for completions of a single user."""
    variables = process.variables()
    data = Path(variables.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(variables.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion/completions/hermes",
        "zsh": Path.home() / ".zfunc/_hermes",
        "fish": config / "fish/completions/hermes.fish",
    }


def installed_files() -> list[Path]:
    return [file for file in files().values() if file.exists()]


def _current() -> str:
    shell = Path(process.variables().get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"cannot tell which shell you use; say one of {', '.join(SHELLS)}")
    return shell
