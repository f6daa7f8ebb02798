"""Jobs as a YAML file that people edit and keep in git."""

from pathlib import Path
from typing import Any

import msgspec

from hermes.app.jobs import JobEditor, read_schedule
from hermes.core.errors import ScheduleError
from hermes.core.events.jobs import JobSchedule, JobSpec
from hermes.core.jobs import JobTable
from hermes.plumbing.units import parse_duration
from hermes.plumbing.yaml_document import YamlFileError, dump_yaml, load_yaml
from hermes.scheduler.grammar import ScheduleReading
from hermes.settings.load import LoadedSettings

_HEAD = "# Jobs of Hermes. `hermes cron apply FILE` makes them so.\n"
_FIELDS = tuple(each for each in JobSpec.__struct_fields__ if each not in ("name", "builtin"))


def write_jobs(specs: list[JobSpec]) -> str:
    """Write what differs from the defaults, and the schedule in the words of its author."""
    jobs = {}
    for spec in sorted(specs, key=lambda each: each.name):
        entry = _without_defaults(msgspec.to_builtins(spec))
        del entry["name"]
        entry["schedule"] = _schedule_text(spec.schedule)
        entry["zone"] = spec.schedule.zone
        jobs[spec.name] = entry
    return _HEAD + dump_yaml({"jobs": jobs})


def _without_defaults(values: dict[str, Any]) -> dict[str, Any]:
    """The encoder leaves out every default but a fraction; 0 would read as a limit of nothing."""
    plain = {k: _without_defaults(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in plain.items() if value not in (0, {})}


def _schedule_text(schedule: JobSchedule) -> str:
    """Words that depend on the day they were said become what they meant."""
    return schedule.at.isoformat() if schedule.at is not None else schedule.text


def read_job_file(loaded: LoadedSettings, file: Path) -> list[JobSpec]:
    """Raises `ScheduleError` with the job and the problem."""
    try:
        content = load_yaml(file.read_text("utf-8"), str(file)).data
    except YamlFileError as error:
        raise ScheduleError(str(error.problem)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{file} cannot be read: {error}") from error
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, dict):
        raise ScheduleError(f"{file}: it has no `jobs:` with a name and a job each")
    return [_read_job(loaded, file, str(name), entry) for name, entry in jobs.items()]


def _read_job(loaded: LoadedSettings, file: Path, name: str, entry: object) -> JobSpec:
    where = f"{file}: job {name}"
    if not isinstance(entry, dict):
        raise ScheduleError(f"{where}: it is not a list of keys and values")
    values = dict(entry)
    zone = str(values.pop("zone", "") or "")
    if unknown := [str(each) for each in values if each not in _FIELDS]:
        raise ScheduleError(f"{where}: unknown key {unknown[0]}; there are: {', '.join(_FIELDS)}")
    try:
        reading: ScheduleReading = read_schedule(loaded, str(values.pop("schedule", "")), zone)
        limits = values.get("limits") or {}
        if isinstance(limits, dict) and isinstance(limits.get("seconds"), str):
            values["limits"] = {**limits, "seconds": parse_duration(limits["seconds"])}
        rest = msgspec.convert(
            {**values, "name": name, "schedule": reading.schedule}, JobSpec, from_attributes=True
        )
    except (ScheduleError, ValueError, msgspec.ValidationError) as error:
        raise ScheduleError(f"{where}: {error}") from error
    return rest


async def apply_jobs(
    editor: JobEditor, wanted: list[JobSpec], *, prune: bool, dry_run: bool
) -> list[tuple[str, str]]:
    """Change the jobs that differ from the file, and return what was done about each.

    Raises `ScheduleError` before any change. A schedule with the same words and zone is the same,
    although an interval was read again.
    """
    table = await editor.table()
    known = {n: j.spec for n, j in table.jobs.items() if not j.spec.builtin and not j.finished}
    checked = [_check_job(editor, spec, table) for spec in wanted]
    plan: list[tuple[JobSpec, str]] = []
    for spec in checked:
        before = known.get(spec.name)
        if before is not None and _same_schedule(before.schedule, spec.schedule):
            spec = msgspec.structs.replace(spec, schedule=before.schedule)
        if before != spec:
            plan.append((spec, "added" if before is None else "changed"))
    names = {spec.name for spec in checked}
    removed = [name for name in known if name not in names] if prune else []
    if not dry_run:
        for spec, what in plan:
            await (editor.add(spec) if what == "added" else editor.change(spec))
        for name in removed:
            await editor.remove(name)
    return [(spec.name, what) for spec, what in plan] + [(name, "removed") for name in removed]


def _check_job(editor: JobEditor, spec: JobSpec, table: JobTable) -> JobSpec:
    try:
        return editor.check(spec, table)
    except ScheduleError as error:
        raise ScheduleError(f"job {spec.name}: {error}") from error


def _same_schedule(before: JobSchedule, after: JobSchedule) -> bool:
    return (_schedule_text(before), before.zone) == (_schedule_text(after), after.zone)
