"""What an operator can decide about what is learned."""

import msgspec


class SkillSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `skills` of the configuration."""

    repairs: int = 3
    """How often a model may mend a Python skill that failed its tests."""
    test_timeout: float = 60.0
    """Seconds that the tests of a Python skill may take, and later one call of it."""
    memory_mb: int = 512
    """Memory of the sandbox in which Python skills run."""
    wheels: str = ""
    """A folder of wheels to install allowed modules from; empty: the package index of pip."""
    variants: int = 2
    """Least number of paired replays on other variants before a skill counts as validated."""
    faster: float = 0.9
    """The median of time or turns, with the skill over without, has to be at most this."""
    live_uses: int = 3
    """Verified live uses after which a validated skill is trusted."""
    review_every: int = 15
    """Finished tasks after which the agent reads its own failing runs."""
    same_errors: int = 3
    """Tasks with the same error after which it does so at once."""
    review_by_itself: bool = True
    """Look back in the background when a conversation ends and a review is due."""
    review_model: str = ""
    """The model that may propose changes in such a review; empty: failures are only counted."""
    second_reader: str = ""
    """The model that reads a foreign skill after the rules have; empty: the rules alone."""
    index_warn_days: int = 30
    """Days after which an index of another publisher is warned about; 0 never."""
    index_most_days: int = 180
    """Days after which it is refused; 0 never."""
