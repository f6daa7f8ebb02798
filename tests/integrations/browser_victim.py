"""Opens pages in a browser until it is killed: the address and a folder for records are given."""

import os
import sys
from pathlib import Path

import anyio
from browser_pages import VARIABLES as PATH_VARIABLES

from hermes.environments.local import LocalEnvironment
from hermes.integrations.browser.address_checks import open_address_proxy
from hermes.integrations.browser.launch import find_program, start_local_browser
from hermes.integrations.browser.session import open_session
from hermes.plumbing.addresses import guard_for

VARIABLES = {**PATH_VARIABLES, "TMPDIR": os.environ["TMPDIR"]}


async def main(address: str, folder: Path) -> None:
    guard = guard_for([address])
    async with (
        LocalEnvironment(folder, VARIABLES, processes=folder / "processes") as environment,
        open_address_proxy(guard) as port,
        start_local_browser(environment, find_program(None), port, VARIABLES) as transport,
    ):
        sys.stdout.write("started\n")
        sys.stdout.flush()
        async with open_session(transport, guard) as session:
            await session.navigate(address)
            sys.stdout.write("open\n")
            sys.stdout.flush()
            while True:
                await session.navigate(address)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
