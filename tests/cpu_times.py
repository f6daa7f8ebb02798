"""`pytest --cpu-times 30`: the files whose tests used the most processor time, with their children.

Unlike the durations of pytest it does not depend on what else runs on the machine. A child counts
for the test in which it was waited for; what a fixture of a session starts, for the first test.
"""

import resource
from collections import defaultdict
from collections.abc import Generator

import pytest

PROPERTY = "cpu_s"
STARTED_AT = pytest.StashKey[float]()


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", type=int, default=0, help="show so many files by CPU time")


def used_cpu_s() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[STARTED_AT] = used_cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown" and STARTED_AT in item.stash:
        used = used_cpu_s() - item.stash[STARTED_AT]
        report.user_properties.append((PROPERTY, f"{used:.3f}"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    yield
    by_file: defaultdict[str, list[float]] = defaultdict(list)
    for report in (each for group in terminalreporter.stats.values() for each in group):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            used = dict(report.user_properties).get(PROPERTY, "0")
            by_file[report.nodeid.partition("::")[0]].append(float(str(used)))
    total, tests = sum(map(sum, by_file.values())), sum(map(len, by_file.values()))
    terminalreporter.write_line(f"{total:8.1f} s of CPU in {tests} tests")
    for file in sorted(by_file, key=lambda file: -sum(by_file[file]))[: config.option.cpu_times]:
        terminalreporter.write_line(f"{sum(by_file[file]):8.1f} s {len(by_file[file]):5}  {file}")
