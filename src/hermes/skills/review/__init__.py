"""The agent reads its own failing runs, proposes one change, and has to pass the same gate."""
