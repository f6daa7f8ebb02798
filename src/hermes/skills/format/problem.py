"""What is wrong with a file of a skill, and where."""

from hermes.core.messages import Value


class Problem(Value, frozen=True):
    file: str
    line: int
    cause: str
    fatal: bool = True
    """False: it can be used as it is, and somebody should look at it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'' if self.fatal else 'note: '}{self.cause}"
