"""Opens the environment that the settings name: the place where commands run."""

from pathlib import Path

from hermes.core.protocols import Environment
from hermes.environments.open import Opening, open_environment
from hermes.environments.variables import child_variables
from hermes.settings.load import Loaded


def place(loaded: Loaded, folder: Path) -> Environment:
    """The environment that the settings name, not yet entered."""
    return open_environment(opening(loaded, folder))


def opening(loaded: Loaded, folder: Path) -> Opening:
    """What a kind of place may know."""
    terminal = loaded.settings.terminal
    return Opening(
        settings=terminal,
        directory=folder,
        home=loaded.home,
        variables=child_variables(
            loaded.secrets, terminal.pass_variables, withheld=loaded.secrets.kept
        ),
        secrets=loaded.secrets,
    )
