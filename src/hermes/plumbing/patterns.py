"""Regular expressions that are compiled when they are first used.

Compiling them takes longer than loading the module that has them, and one question or one command
needs only a few.
"""

import re
from typing import Any, AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, source: AnyStr, flags: int) -> None:
        self._source: AnyStr = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Called once for each method, which is kept then."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`; only methods and attributes of the result can be used."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
