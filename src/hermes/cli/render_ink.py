"""A few colours for the terminal; where colour is unwanted the text comes back as it was."""

import msgspec


class Ink(msgspec.Struct, frozen=True):
    colour: bool = False

    def dim(self, text: str) -> str:
        return self._paint("2", text)

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def red(self, text: str) -> str:
        return self._paint("31", text)

    def green(self, text: str) -> str:
        return self._paint("32", text)

    def yellow(self, text: str) -> str:
        return self._paint("33", text)

    def cyan(self, text: str) -> str:
        return self._paint("36", text)

    def _paint(self, code: str, text: str) -> str:
        if not self.colour or not text:
            return text
        # Line by line: a terminal that is redrawn in between must not carry a colour over.
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))
