"""Commands in a pod: in one that is there, or in one that is started for us and deleted again."""

from hermes.core.errors import PlaceFailed
from hermes.environments.errands.client import Client, find_program
from hermes.environments.errands.environment import granted
from hermes.environments.kubernetes_pod import Pod, scope
from hermes.environments.open import Opening
from hermes.environments.remote.environment import RemoteEnvironment

_CALL = 30.0


def open_kubernetes(opening: Opening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder in the pod; "." is the container's own. A pod that was there
    before is not isolated: it is at work. Raises `PlaceFailed` when kubectl is not here."""
    settings = opening.settings
    where = f"{settings.kubernetes_context or 'current context'}/{settings.kubernetes_namespace}"
    return RemoteEnvironment(
        "kubernetes",
        f"{where}/{settings.kubernetes_pod or settings.kubernetes_image}",
        Pod(_client(opening), settings, name=settings.kubernetes_pod),
        settings=settings,
        isolated=not settings.kubernetes_pod,
        start="" if settings.cwd == "." else settings.cwd,
        variables=granted(opening),
    )


async def why_not(opening: Opening) -> str | None:
    """What is missing for a pod; None when nothing is. Nothing is started."""
    try:
        client = _client(opening)
        where = await scope(client, opening.settings)
        for words in _needed(bool(opening.settings.kubernetes_pod)):
            asked = await client.call([*where, "auth", "can-i", *words, "--quiet"], timeout=_CALL)
            if asked.code != 0:
                return asked.complaint or (
                    f"this account may not {' '.join(words)}: ask for a role that may"
                )
    except PlaceFailed as error:
        return str(error)
    return None


def _needed(there: bool) -> list[list[str]]:
    enter = ["create", "pods", "--subresource=exec"]
    return [enter] if there else [["create", "pods"], enter]


def _client(opening: Opening) -> Client:
    program = find_program(["kubectl"], opening.variables)
    if program is None:
        raise PlaceFailed("kubectl is not on the PATH: see kubernetes.io/docs/tasks/tools")
    return Client(program, dict(opening.variables))
