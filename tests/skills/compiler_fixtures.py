"""A home with a workshop, real sandboxes, and the CSV example as a model would write it."""

import json
from pathlib import Path

from hermes.app.skills.workshop import SkillWorkshop
from hermes.core.events import Event
from hermes.core.messages import Message
from hermes.models.scripted import ScriptedModel
from hermes.settings.load import LoadedSettings, load

TASK = (
    "Create a new skill called 'generate_csv_report'. Accept arguments 'filename' and 'sales_data' "
    "(dict). Write parameters as CSV to '/app/data/[filename].csv' with headers: Product, Revenue."
)
CODE = '''"""Sales as a CSV report."""

import csv
from pathlib import Path


def generate_csv_report(filename: str, sales_data: dict[str, float]) -> str:
    """Write sales data as a CSV file with the headers Product and Revenue.

    Returns the path of the file.

    >>> generate_csv_report("march", {"Tea": 3.5})
    'data/march.csv'
    """
    if not filename or Path(filename).name != filename:
        raise ValueError(f"{filename!r} is no plain name of a file")
    target = Path("/app/data") / f"{filename}.csv"
    with target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Product", "Revenue"])
        writer.writerows(sales_data.items())
    return str(target)
'''
TESTS = '''"""What the report has to hold."""

from pathlib import Path

from generate_csv_report import generate_csv_report


def test_rows_follow_the_headers():
    path = generate_csv_report("q1", {"Tea": 3.5, "Milk": 2})
    assert Path(path).read_text().splitlines() == ["Product,Revenue", "Tea,3.5", "Milk,2"]


def test_a_name_that_leads_out_is_refused():
    try:
        generate_csv_report("../q1", {})
    except ValueError:
        return
    raise AssertionError("it was written")
'''


def answer(code: str = CODE, tests: str = TESTS) -> str:
    return f"Here it is.\n\n```python\n{code}```\n\n```python\n{tests}```\n"


def scripted(*texts: str) -> ScriptedModel:
    return ScriptedModel([Message(role="assistant", text=text) for text in texts])


def a_home(folder: Path, **settings: str) -> LoadedSettings:
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    return load(home=folder / "home", variables=variables, overrides=settings)


class Heard:
    """Everything that was published, and what the operator would read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []

    async def publish(self, *events: Event) -> list[int]:
        self.events += events
        return [len(self.events)] * len(events)


def a_workshop(folder: Path, **settings: str) -> SkillWorkshop:
    return SkillWorkshop(a_home(folder, **settings))


def a_script(path: Path, *replies: dict[str, object]) -> Path:
    lines = [json.dumps({"role": "assistant", **reply}) for reply in replies]
    path.write_text("\n".join(lines) + "\n")
    return path
