"""Toolsets and their probabilities, as data."""

from collections import Counter

import pytest

from hermes.core.errors import SettingsError
from hermes.tools.declare import ToolRequirements
from hermes.tools.settings import OwnToolset
from hermes.tools.toolsets import (
    TOOLSET_DISTRIBUTIONS,
    TOOLSETS,
    HostCapabilities,
    Toolset,
    check_availability,
    check_distribution,
    draw_toolsets,
    find_distribution,
    resolve_toolsets,
    with_own_toolsets,
)

DEFAULT = [
    "terminal", "process", "read_file", "write_file", "patch", "search_files", "execute_code",
    "todo", "clarify", "memory", "session_search", "skills_categories", "skills_list",
    "skill_view", "delegate", "web_search", "web_extract", "vision_analyze", "image_generate",
    "mixture_of_agents",
]  # fmt: skip


def test_the_default_set_is_everything_for_everyday_work_in_order() -> None:
    assert list(resolve_toolsets(["default"])) == DEFAULT


@pytest.mark.parametrize("platform", ["cli", "telegram", "discord", "slack", "whatsapp"])
def test_every_platform_has_its_own_set(platform: str) -> None:
    assert "terminal" in resolve_toolsets([f"hermes-{platform}"])


def test_every_built_in_set_resolves_and_says_what_it_is_for() -> None:
    for name, each in TOOLSETS.items():
        assert each.about
        resolve_toolsets([name])


def test_the_safe_set_holds_nothing_that_changes_anything() -> None:
    assert list(resolve_toolsets(["safe"])) == ["read_file", "search_files", "todo", "clarify"]


def test_sets_add_up_without_repeating_and_may_include_each_other() -> None:
    assert list(resolve_toolsets(["file", "safe"])) == [
        "read_file", "write_file", "patch", "search_files", "todo", "clarify",
    ]  # fmt: skip
    sets = {
        "a": Toolset(about="", tools=("x",), includes=("b",)),
        "b": Toolset(about="", tools=("y",), includes=("a",)),
    }
    assert list(resolve_toolsets(["a"], sets)) == ["x", "y"]


def test_an_unknown_set_brings_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no toolset 'termnal'; did you mean terminal"):
        resolve_toolsets(["termnal"])
    with pytest.raises(SettingsError, match="there are: terminal, file"):
        resolve_toolsets(["zzz"])


def test_an_operator_has_sets_of_their_own() -> None:
    sets = with_own_toolsets({"mine": OwnToolset(tools=("x",), includes=("safe",), about="my own")})
    assert list(resolve_toolsets(["mine"], sets)) == [
        "x",
        "read_file",
        "search_files",
        "todo",
        "clarify",
    ]
    broken = with_own_toolsets({"mine": OwnToolset(includes=("saef",))})
    with pytest.raises(SettingsError, match="did you mean safe"):
        resolve_toolsets(["mine"], broken)


def test_what_is_missing_is_told_with_how_to_get_it() -> None:
    needs = ToolRequirements(programs=("kubectl", "ls"), variables=("CLOUD_KEY",))
    here = HostCapabilities(programs=frozenset({"ls"}), variables=frozenset())
    verdict = check_availability("pods", [ToolRequirements(), needs], here)
    assert not verdict.available
    assert verdict.why == "missing: the program kubectl, the key CLOUD_KEY"
    assert verdict.how == (
        "install kubectl in the environment; set it: hermes config set CLOUD_KEY <value>"
    )
    explained = ToolRequirements(programs=("kubectl",), how="apt install kubectl")
    assert check_availability("pods", [explained], here).how == "apt install kubectl"


def test_what_nobody_looked_for_is_not_said_to_be_missing() -> None:
    needs = ToolRequirements(programs=("kubectl",), variables=("CLOUD_KEY",))
    assert check_availability("pods", [needs], HostCapabilities()).available
    everything = HostCapabilities(
        programs=frozenset({"kubectl"}), variables=frozenset({"CLOUD_KEY"})
    )
    assert check_availability("pods", [needs], everything).available


def test_a_draw_can_be_repeated_and_varies_with_the_seed() -> None:
    mixed = find_distribution("mixed")
    assert [draw_toolsets(mixed, n) for n in range(20)] == [
        draw_toolsets(mixed, n) for n in range(20)
    ]
    assert len({draw_toolsets(mixed, n) for n in range(50)}) > 5


def test_a_draw_follows_the_probabilities_and_is_never_empty() -> None:
    counted: Counter[str] = Counter()
    for seed in range(4000):
        drawn = draw_toolsets(TOOLSET_DISTRIBUTIONS["development"], f"prompt-{seed}")
        assert drawn
        counted.update(drawn)
    for toolset, chance in TOOLSET_DISTRIBUTIONS["development"].items():
        assert abs(counted[toolset] / 4000 - chance) < 0.03
    assert all(draw_toolsets({"file": 0.01, "code": 0.0}, seed) == ("file",) for seed in range(50))


def test_the_order_of_the_names_does_not_matter_to_a_draw() -> None:
    one, other = {"file": 0.5, "code": 0.5}, {"code": 0.5, "file": 0.5}
    assert all(
        set(draw_toolsets(one, seed)) == set(draw_toolsets(other, seed)) for seed in range(50)
    )


def test_every_built_in_distribution_is_valid() -> None:
    for name, each in TOOLSET_DISTRIBUTIONS.items():
        check_distribution(name, each)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"file": 1.5}, "file has probability 1.5; it must be 0 to 1"),
        ({"file": -0.1}, "must be 0 to 1"),
        ({"file": float("nan")}, "must be 0 to 1"),
        ({"flie": 0.5}, "no toolset 'flie'; did you mean file"),
        ({"file": 0.0}, "never draws any"),
        ({}, "never draws any"),
    ],
)
def test_a_distribution_that_cannot_be_is_refused(own: dict[str, float], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        find_distribution("mine", {"mine": own})


def test_an_unknown_distribution_brings_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean mixed"):
        find_distribution("mixd")


def test_a_missing_setting_is_told_like_a_missing_key() -> None:
    needs = ToolRequirements(settings=("systems.prometheus.url",))
    verdict = check_availability("query", [needs], HostCapabilities(settings=frozenset()))
    assert verdict.why == "missing: the setting systems.prometheus.url"
    assert verdict.how == "set it: hermes config set systems.prometheus.url <value>"
    there = HostCapabilities(settings=frozenset({"systems.prometheus.url"}))
    assert check_availability("query", [needs], there).available
