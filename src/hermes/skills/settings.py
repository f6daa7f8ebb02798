"""Settings of skills: compiler, evaluation, review, exchange."""

import msgspec


class SkillSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `skills` of the configuration."""

    repairs: int = 3
    """How often a model may repair a Python skill that failed its tests."""
    test_timeout: float = 60.0
    """Seconds that the tests of a Python skill may take, and later one call of it."""
    memory_mb: int = 512
    """Memory of the sandbox in which Python skills run."""
    wheels: str = ""
    """A folder of wheels to install allowed modules from; empty: the package index of pip."""
    variants: int = 2
    """Minimum number of paired replays on other variants before a skill counts as validated."""
    faster: float = 0.9
    """Maximum of the median ratio of time or turns with the skill to those without it."""
    live_uses: int = 3
    """Verified live uses after which a validated skill is trusted."""
    review_every: int = 15
    """Finished tasks after which the agent reviews its failed runs."""
    same_errors: int = 3
    """Tasks with the same error after which it does so immediately."""
    review_by_itself: bool = True
    """Review in the background when a conversation ends and a review is due."""
    review_model: str = ""
    """The model that may propose changes in a review; empty: failures are only counted."""
    second_reader: str = ""
    """The model that reviews a foreign skill after the rules; empty: only the rules."""
    index_warn_days: int = 30
    """Days after which an old index of a publisher causes a warning; 0: never."""
    hubs: tuple[str, ...] = ("anthropics/skills", "openai/skills")
    """Where `hermes skills search` and `install NAME` look: repositories of GitHub as OWNER/REPO,
    folders, git repositories, and sites with `/.well-known/skills`."""
    github_api: str = "https://api.github.com"
    """The address of the API of GitHub, for an enterprise server."""
    index_most_days: int = 180
    """Days after which it is refused; 0: never."""
