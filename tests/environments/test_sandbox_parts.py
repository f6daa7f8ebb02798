"""Parts of the sandbox that this machine may not have: other processors, other cgroups."""

import struct
from pathlib import Path

import pytest

from hermes.environments.confinement import limits, seccomp
from hermes.environments.sandboxing import cgroups, host_access

ALLOW, KILL = "allowed", "killed"
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
STEPS = {0x20: "load", 0x54: "and", 0x15: "equal", 0x35: "above", 0x05: "jump", 0x06: "return"}

# The numbers are written down here a second time, from the kernel's headers.
NUMBERS = {
    "x86_64": {"socket": 41, "socketpair": 53, "clone": 56, "ptrace": 101, "ioctl": 16, "read": 0,
               "openat": 257, "mknodat": 259, "fchmodat": 268, "utimensat": 280, "kexec_load": 246,
               "prlimit64": 302, "clone3": 435, "memfd_create": 319, "bpf": 321},
    "aarch64": {"socket": 198, "socketpair": 199, "clone": 220, "ptrace": 117, "ioctl": 29,
                "read": 63, "openat": 56, "mknodat": 33, "fchmodat": 53, "utimensat": 88,
                "kexec_load": 104, "prlimit64": 261, "clone3": 435, "memfd_create": 279,
                "bpf": 280},
}  # fmt: skip


def judge(code: bytes, architecture: int, number: int, *arguments: int) -> str:
    """What the kernel would do: a filter program, run by hand."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *words)
    steps = list(struct.iter_unpack("<HBBI", code))
    value, at = 0, 0
    while True:
        kind, yes, no, operand = steps[at]
        at += 1
        match STEPS[kind]:
            case "load":
                (value,) = struct.unpack_from("<I", data, operand)
            case "and":
                value &= operand
            case "equal":
                at += yes if value == operand else no
            case "above":
                at += yes if value >= operand else no
            case "jump":
                at += operand
            case _:
                named = {0x7FFF0000: ALLOW, 0x80000000: KILL}
                return named.get(operand, f"error {operand & 0xFFFF}")


def refused(
    machine: str, name: str, *arguments: int, connections: str = "supervised", **kind: bool
) -> bool:
    usual = {"network": False, "namespaces": True, "own_user": True, "counted_memory": True}
    rules = seccomp.build_refusals(connections=connections, **{**usual, **kind})
    code = seccomp.compile_filter(rules, machine)
    verdict = judge(code, ARCHITECTURES[machine], NUMBERS[machine][name], *arguments)
    return verdict in ("error 1", "error 38")


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_the_filter_refuses_the_same_on_every_processor(machine: str) -> None:
    assert not refused(machine, "read")
    assert refused(machine, "ptrace")
    assert refused(machine, "kexec_load")
    assert refused(machine, "bpf")
    assert refused(machine, "clone3")
    assert refused(machine, "clone", 0x10000011)
    assert not refused(machine, "clone", 0x01200011)
    assert refused(machine, "ioctl", 0, 0x5412)
    assert not refused(machine, "ioctl", 0, 0x5413)
    assert refused(machine, "mknodat", 0, 0, 0o060666)
    assert not refused(machine, "mknodat", 0, 0, 0o010666)


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_only_local_sockets_are_left_without_network(machine: str) -> None:
    families = range(46)
    assert [each for each in families if not refused(machine, "socket", each)] == [1]
    assert [each for each in families if not refused(machine, "socketpair", each, 1)] == [1]
    granted = [each for each in families if not refused(machine, "socket", each, network=True)]
    assert granted == [1, 2, 10, 16]
    assert all(refused(machine, "socket", each, connections="none") for each in families)


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_datagrams_to_named_sockets_cannot_be_sent(machine: str) -> None:
    for kind in (1, 5, 0o2000001):
        assert not refused(machine, "socket", 1, kind)
        assert not refused(machine, "socketpair", 1, kind)
    for kind in (2, 3, 0o2000002):
        assert refused(machine, "socket", 1, kind)
        assert refused(machine, "socketpair", 1, kind)
    assert not refused(machine, "socket", 2, 2, network=True)


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_setuid_files_are_refused_and_only_where_a_file_is_made(machine: str) -> None:
    assert refused(machine, "fchmodat", 0, 0, 0o4755)
    assert refused(machine, "fchmodat", 0, 0, 0o2755)
    assert not refused(machine, "fchmodat", 0, 0, 0o1755)
    assert refused(machine, "openat", 0, 0, 0o100, 0o4755)
    assert not refused(machine, "openat", 0, 0, 0, 0o4755)
    assert not refused(machine, "openat", 0, 0, 0o100, 0o755)


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_without_namespaces_the_filter_is_stricter(machine: str) -> None:
    alone = {"namespaces": False, "own_user": False}
    for name in ("fchmodat", "utimensat"):
        assert refused(machine, name, 0, 1 << 40, 0o644, **alone)
        assert not refused(machine, name, 0, 1 << 40, 0o644, namespaces=False, own_user=True)
    assert not refused(machine, "utimensat", 3, 0, **alone)
    assert refused(machine, "prlimit64", 1234, **alone)
    assert not refused(machine, "prlimit64", 0, **alone)
    assert not refused(machine, "prlimit64", 1234)


@pytest.mark.parametrize("machine", list(NUMBERS))
def test_memory_that_nobody_counts_is_refused(machine: str) -> None:
    assert refused(machine, "memfd_create", counted_memory=False)
    assert not refused(machine, "memfd_create", counted_memory=True)


def test_a_call_between_two_listed_ones_is_allowed_and_the_first_rule_that_holds_answers() -> None:
    rules = [
        seccomp.CallRefusal("open", seccomp.ArgumentCondition(1, 64), error=2),
        seccomp.CallRefusal("connect"),
        seccomp.CallRefusal("open", seccomp.any_bit(1, 64), error=38),
    ]
    for used in (rules, rules[:1], []):
        code = seccomp.compile_filter(used, "x86_64")
        answers = {
            number: judge(code, ARCHITECTURES["x86_64"], number, 0, 64) for number in range(500)
        }
        found = {number: answer for number, answer in answers.items() if answer != ALLOW}
        assert found == {0: {}, 1: {2: "error 2"}, 3: {2: "error 2", 42: "error 1"}}[len(used)]
    code = seccomp.compile_filter(rules, "x86_64")
    assert judge(code, ARCHITECTURES["x86_64"], 2, 0, 65) == "error 38"


def test_another_processors_numbers_end_the_program() -> None:
    rules = seccomp.build_refusals(
        network=False, connections="none", namespaces=True, own_user=True, counted_memory=True
    )
    code = seccomp.compile_filter(rules, "x86_64")
    assert judge(code, 0x40000003, 0) == KILL  # 32 bit
    assert judge(code, ARCHITECTURES["x86_64"], 0x40000000 + 41, 2) == KILL  # x32
    with pytest.raises(OSError, match="no table"):
        seccomp.compile_filter(rules, "riscv64")


def own(folder: Path, groups: str, *mounts: str) -> Path:
    (folder / "cgroup").write_text(groups)
    lines = [f"30 24 0:26 {mount}" for mount in mounts]
    (folder / "mountinfo").write_text("\n".join(lines) + "\n")
    return folder


def test_cgroups_of_version_2_are_made_beside_our_own(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "system.slice/hermes.service").mkdir(parents=True)
    for folder, given in (("system.slice", "cpu memory pids"), ("system.slice/hermes.service", "")):
        (top / folder / "cgroup.subtree_control").write_text(given)
        (top / folder / "cgroup.controllers").write_text("cpu memory pids")
        (top / folder / "cgroup.procs").touch()
    us = own(tmp_path, "0::/system.slice/hermes.service\n", f"/ {top} rw - cgroup2 cgroup2 rw")
    made = cgroups.create_cgroup(memory=1000, processes=10, own=us)
    (folder_name,) = made.folders
    assert Path(folder_name).parent == top / "system.slice"
    assert (Path(folder_name) / "memory.max").read_text() == "1000"
    assert (Path(folder_name) / "pids.max").read_text() == str(
        10 + cgroups.SANDBOX_OVERHEAD_PROCESSES
    )
    assert made.memory
    assert made.processes
    (top / "system.slice/cgroup.subtree_control").write_text("cpu")
    assert cgroups.create_cgroup(memory=1000, processes=10, own=us).folders == ()


def test_cgroups_of_version_1_are_made_below_our_own(tmp_path: Path) -> None:
    for name in ("memory", "pids"):
        (tmp_path / name / "job").mkdir(parents=True)
    us = own(
        tmp_path,
        "4:memory:/docker/x/job\n8:pids:/docker/x/job\n1:cpu:/\n",
        f"/docker/x {tmp_path}/memory rw - cgroup cgroup rw,memory",
        f"/docker/x {tmp_path}/pids rw - cgroup cgroup rw,pids",
    )
    made = cgroups.create_cgroup(memory=1000, processes=10, own=us)
    assert {Path(folder).parent for folder in made.folders} == {
        tmp_path / "memory/job",
        tmp_path / "pids/job",
    }
    assert made.memory
    assert made.processes


def test_without_cgroups_there_is_nothing_and_no_error(tmp_path: Path) -> None:
    assert cgroups.create_cgroup(memory=1, processes=1, own=tmp_path) == cgroups.SandboxCgroup()


def test_only_named_files_of_etc_are_shown() -> None:
    system = host_access.find_system_files()
    assert not {"/etc", "/etc/shadow", "/etc/ssh", "/etc/passwd"} & set(system.paths)
    assert all(path in system.paths for path, _ in system.files)


def test_a_stranger_is_nobody_we_know() -> None:
    strangers = {host_access.find_unused_uid() for _ in range(20)}
    assert len(strangers) > 1
    assert not strangers & {0, 65534, 1000}


def test_the_largest_is_found_when_all_together_use_too_much() -> None:
    everyone = [1, *limits.find_descendants(1)][:20]
    assert limits.find_largest_process(everyone, 1 << 50) is None
    assert limits.find_largest_process(everyone, 1) in everyone
