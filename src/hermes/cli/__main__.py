"""`python -m hermes.cli` is the `hermes` command."""

import sys

from hermes.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
