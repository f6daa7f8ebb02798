"""`hermes version`: the version, and what it runs on."""

import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import click

from hermes import __version__
from hermes.cli.installation import installation
from hermes.cli.lazy import Examples
from hermes.cli.loading import home
from hermes.cli.output import emit_json, fields, json_option

LIBRARIES = ("anyio", "apsw", "click", "httpx2", "msgspec", "prompt_toolkit", "rich", "xllamacpp")


@click.command(cls=Examples, examples="hermes version --json | jq -r .version")
@json_option
def version(as_json: bool) -> None:
    """Show the version, how it was installed, and what it runs on."""
    from hermes.settings.migrations import VERSION

    here = installation()
    facts = {
        "version": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "installed": f"{here.kind} in {here.location}",
        "home": str(home()),
        "config version": VERSION,
    }
    libraries = {name: found for name in LIBRARIES if (found := _installed(name))}
    if as_json:
        emit_json(
            {name.replace(" ", "_"): v for name, v in facts.items()} | {"libraries": libraries}
        )
    else:
        fields(facts | {"libraries": ", ".join(f"{n} {v}" for n, v in libraries.items())})


def _installed(name: str) -> str | None:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None
