"""A program that copies this machine until it is killed. Prints a line before each copy."""

import sys

import anyio

from hermes.environments.copies.machine_copy import copy_machine


async def main(mark: str) -> None:
    while True:
        sys.stdout.write("copying\n")
        sys.stdout.flush()
        copy = await copy_machine()
        await copy.run(f"sleep {mark} & setsid sleep {mark} >/dev/null 2>&1 & touch /etc/{mark}")
        await copy.close()


anyio.run(main, sys.argv[1])
