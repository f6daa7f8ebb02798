"""Tools by name, in layers that are asked each time: what is made while a run lives is there."""

from collections.abc import Iterator, Mapping

from hermes.core.protocols import Tool


class ToolTable(Mapping[str, Tool]):
    """A later layer stands before an earlier one of the same name."""

    def __init__(self, *layers: Mapping[str, Tool]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Tool:
        for layer in reversed(self._layers):
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({name: None for layer in self._layers for name in layer})

    def __len__(self) -> int:
        return sum(1 for _ in self)
