"""A chat with a scripted model in the terminal it is started in. The argument is its home."""

import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))
from scripted_application import HANG, ScriptedApplication, calls, says

from hermes.cli.chat.banner import ChatInfo
from hermes.cli.chat.interactive import open_session, open_terminal
from hermes.settings.schema import DisplaySettings

FIRST = """## A plan

Here is **what** I would do, word by word, so that it can be watched:

1. look at the disk
2. look at the logs

```sh
df -h
```

And that is the end of the plan."""


async def main() -> None:
    session = open_session(*open_terminal(DisplaySettings(), Path(sys.argv[1])))
    script = [says(FIRST), calls("terminal", command="df -h"), says("It is full: 日本語."), HANG]
    application = ScriptedApplication(script, session.approver, pace=0.03, ask=session.approver.ask)
    tools = tuple((spec.name, spec.description) for spec in application.means.executor.specs)
    facts = ChatInfo(
        version="0", model=application.model.name, directory=str(Path.cwd()), tools=tools
    )
    await session.run(application, facts)
    sys.stdout.write("left cleanly\n")


anyio.run(main)
