"""String tricks are undone without running them, and without falling for them."""

import ast

import pytest

from hermes.skills.scanner.python.static_values import (
    MAX_FOLDED_LENGTH,
    ConstantFolder,
    find_constants,
)


def folded(text: str) -> object:
    tree = ast.parse(text)
    constants = find_constants(list(ast.walk(tree)))
    return ConstantFolder(constants).fold(tree.body[-1].value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'cu' + 'rl'", "curl"),
        ("'{}{}'.format('so', 'cket')", "socket"),
        ("'{1}{0}'.format('cket', 'so')", "socket"),
        ("'%s%s' % ('so', 'cket')", "socket"),
        ("'-'.join(['a', 'b'])", "a-b"),
        ("f\"{'so'}cket\"", "socket"),
        ("'sXcket'.replace('X', 'o')", "socket"),
    ],
)
def test_a_word_in_pieces_is_put_together(text: str, said: str) -> None:
    assert folded(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "'{u.scheme}://{u.netloc}'.format('x')",
        "'{0.__class__.__mro__}'.format('x')",
        "'{:>99999999999}'.format('x')",
        "'%99999999999d' % 1",
        "'%9999999999s' % 'x'",
        "a = 'x' * 199999\n'y'.join([" + "a, " * 3000 + "])",
        "a = 'x' * 199999\na.replace('x', a)",
        "a = 'x' * 199999\n'" + "{0}" * 9000 + "'.format(a)",
        "a = 'x' * 199999\nf'" + "{a}" * 9000 + "'",
    ],
)
def test_what_would_grow_without_end_or_reaches_into_objects_is_left_unknown(text: str) -> None:
    said = folded(text)
    assert said is None or len(str(said)) <= MAX_FOLDED_LENGTH
