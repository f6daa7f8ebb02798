"""`hermes completion`: prints or installs the completion script of a shell."""

from pathlib import Path

import click

from hermes.cli.lazy import cli_command
from hermes.cli.output import echo
from hermes.settings import process_environment
from hermes.settings.files import unwritable_error

SUPPORTED_SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_HERMES_COMPLETE"


@cli_command("""
eval "$(hermes completion bash)"        for this shell only
hermes completion zsh --install         permanently
""")
@click.argument("shell", type=click.Choice(SUPPORTED_SHELLS), required=False)
@click.option("--install", is_flag=True, help="Install it for this user.")
def completion(shell: str | None, install: bool) -> None:
    """Print the completion script for SHELL; without SHELL, for the one you use."""
    shell = shell or _current_shell()
    script = completion_script(shell)
    if not install:
        echo(script)
        return
    file = completion_files()[shell]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable_error(file, error) from error
    echo(f"written to {file}; open a new shell")
    if shell == "zsh":
        echo(f"to enable it, put `fpath+=({file.parent})` before `compinit` in ~/.zshrc")


def completion_script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from hermes.cli.root_command import root

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(root, {}, "hermes", COMPLETION_VARIABLE).source()


def completion_files() -> dict[str, Path]:
    """The completion file of each shell for a single user."""
    variables = process_environment.environment_variables()
    data = Path(variables.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(variables.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion/completions/hermes",
        "zsh": Path.home() / ".zfunc/_hermes",
        "fish": config / "fish/completions/hermes.fish",
    }


def installed_completion_files() -> list[Path]:
    return [file for file in completion_files().values() if file.exists()]


def _current_shell() -> str:
    shell = Path(process_environment.environment_variables().get("SHELL", "")).name
    if shell not in SUPPORTED_SHELLS:
        raise click.UsageError(
            f"your shell is not known; name one of {', '.join(SUPPORTED_SHELLS)}"
        )
    return shell
