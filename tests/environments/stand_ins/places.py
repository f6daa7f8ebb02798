"""Places that cannot be had here, each with a stand-in behind the real code: the contract suite
proves what Hermes does with an answer, not that the real program or service gives it."""

import ast
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.environments.cloud.environment import CloudEnvironment
from hermes.environments.daytona import open_daytona
from hermes.environments.kubernetes import open_kubernetes
from hermes.environments.modal import open_modal
from hermes.environments.open import EnvironmentOpening, select_variables
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.settings import TerminalSettings
from hermes.environments.singularity import open_singularity

HERE = Path(__file__).parent
SECRETS = {
    "MODAL_TOKEN_ID": "ak-stand-in",
    "MODAL_TOKEN_SECRET": "as-stand-in",
    "DAYTONA_API_KEY": "dtn_stand-in",
}
SHIM = """#!{python} -IS
import sys
sys.path.insert(0, {folder!r})
from {module} import main
main(sys.argv[1:])
"""


def install(folder: Path, name: str, module: str) -> None:
    """Put a stand-in program on the PATH of `opening(folder)`."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    text = SHIM.format(python=sys.executable, folder=str(HERE / "cli"), module=module)
    program.write_text(text)
    program.chmod(0o755)
    (folder / "stand-in").mkdir(exist_ok=True)


def opening(folder: Path, **settings: Any) -> EnvironmentOpening:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    variables = select_variables(
        {"PATH": path, "HOME": str(folder), "PASSED": "on", "OPENAI_API_KEY": "sk-1"},
        settings.get("pass_variables", ()),
    )
    return EnvironmentOpening(TerminalSettings(**settings), folder, folder, variables, SECRETS)


def calls(folder: Path) -> list[dict[str, Any]]:
    """What a stand-in program was asked: `argv`, and the names of the `variables` it saw."""
    return [
        ast.literal_eval(line) for line in (folder / "stand-in" / "calls").read_text().splitlines()
    ]


def want(folder: Path, fault: str, text: str = "") -> None:
    (folder / "stand-in" / fault).write_text(text)


def singularity(folder: Path, **settings: Any) -> RemoteEnvironment:
    install(folder, "apptainer", "stand_in_apptainer")
    return open_singularity(opening(folder, **settings))


def kubernetes(folder: Path, **settings: Any) -> RemoteEnvironment:
    install(folder, "kubectl", "stand_in_kubectl")
    return open_kubernetes(opening(folder, **settings))


def sdk() -> Any:
    """The stand-in SDKs in place of real ones, installed or not; what they were asked."""
    if str(HERE / "sdk") not in sys.path:
        sys.path.insert(0, str(HERE / "sdk"))
    return import_module("stand_in_machine")


def modal(folder: Path, **settings: Any) -> CloudEnvironment:
    sdk()
    return open_modal(opening(folder, **settings))


def daytona(folder: Path, **settings: Any) -> CloudEnvironment:
    sdk()
    return open_daytona(opening(folder, **settings))


STAND_INS = {
    "singularity-stand-in": singularity,
    "kubernetes-stand-in": kubernetes,
    "modal-stand-in": modal,
    "daytona-stand-in": daytona,
}
