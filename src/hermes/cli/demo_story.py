"""What the demo plays: a small broken job, and a model that says what it was told to."""

from pathlib import Path

import msgspec

from hermes.core.messages import Message, ToolCall

ALERT = (
    "The nightly backup has failed since Tuesday. Find out why, mend it, and show that it works."
)

FILES = {
    "backup.sh": """\
#!/bin/bash
# Packs the reports into one archive, every night.
set -e
. ./backup.conf
mkdir -p "$TARGET"
archive="$TARGET/reports.tar.gz"
tar -czf "$archive" -C "$SOURCE" .
echo "$(date -u +%FT%TZ) packed $(tar -tzf "$archive" | grep -c csv) reports" >> backup.log
""",
    "backup.conf": "SOURCE=data/report\nTARGET=archive\n",
    "data/reports/monday.csv": "product,revenue\nanvil,120\n",
    "data/reports/tuesday.csv": "product,revenue\nrope,80\n",
    "backup.log": "2026-11-09T02:00:01Z packed 2 reports\n",
}

NOSY = "cat /etc/shadow"
"""What an agent has no business with: the sandbox, not the model's manners, keeps it out."""

CHECK = "tar -tzf archive/reports.tar.gz | grep -c csv | grep -qx 2 && tail -n 1 backup.log"
"""What the demo itself runs at the end: the system says that it is mended, not the model."""


def lay_out(folder: Path) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "backup.sh").chmod(0o755)


def write_script(path: Path) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(message) + b"\n" for message in _replies()))


def _replies() -> list[Message]:
    return [
        _calls(
            ("terminal", {"command": "./backup.sh"}),
            ("terminal", {"command": "cat backup.conf; ls data; tail -n 3 backup.log"}),
            ("search_files", {"pattern": "SOURCE", "path": "."}),
        ),
        _calls(("terminal", {"command": NOSY})),
        _calls(
            (
                "patch",
                {"path": "backup.conf", "old": "SOURCE=data/report", "new": "SOURCE=data/reports"},
            )
        ),
        _calls(("terminal", {"command": "./backup.sh && tail -n 1 backup.log"})),
        Message(
            role="assistant",
            text="The job read from `data/report`, which does not exist; the folder is "
            "`data/reports`. I changed that one line in `backup.conf` and ran the job: it packed "
            "both reports. Nothing else was touched.",
        ),
    ]


def _calls(*calls: tuple[str, dict[str, str]]) -> Message:
    made = tuple(ToolCall(f"{name}-{i}", name, given) for i, (name, given) in enumerate(calls))
    return Message(role="assistant", calls=made)
