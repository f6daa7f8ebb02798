"""Texts that nobody types: they ask, and they are read in bounded time."""

import time

import pytest

from hermes.policy.command_analysis import analyse_command

HUGE = {
    "a megabyte of one word": "a" * 1_000_000,
    "a megabyte of words": "ls " + "x " * 500_000,
    "a megabyte of blanks before the harm": "ls " + " " * 1_000_000 + "; rm -rf /srv",
    "a megabyte of lines": "ls\n" * 333_333,
    "a megabyte of comment": "# " + "x" * 1_000_000 + "\nrm -rf /srv",
    "bytes that are no text": "ls \udc80\udcff",
    "half a surrogate pair": "echo \ud800",
    "a NUL": "ls\0rm -rf /srv",
    "deep parentheses": "(" * 5000 + "ls" + ")" * 5000,
    "deep substitutions": "echo " + "$(" * 3000 + "ls" + ")" * 3000,
    "deep conditions": "if true; then " * 1000 + "ls" + "; fi" * 1000,
    "ten thousand pipes": "ls | " * 10_000 + "cat",
    "ten thousand commands": "ls;" * 10_000,
    "many here-documents": "cat <<A\n" * 2000,
    "braces that multiply": "echo " + "{a,b}" * 30,
    "variables that double": "".join(f"a{i}=$a{i - 1}$a{i - 1};" for i in range(1, 60)) + "ls",
    "words handed on and on": "echo " + "x " * 700 + "| xargs " * 50 + "ls",
    "ssh within ssh": "ssh a " * 100 + "ls",
    "a function of itself": "f(){ f;f; };f",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_it_asks_and_soon(text: str) -> None:
    found = analyse_command(text, cwd="/srv/app", home="/home/u")
    assert not found.is_read_only
    best = min(_milliseconds(text) for _ in range(3))
    # The figure to reach is 50; twice that leaves room for a busy machine.
    assert best < 100, f"{best:.0f} ms"


def _milliseconds(text: str) -> float:
    started = time.thread_time()
    analyse_command(text, cwd="/srv/app", home="/home/u")
    return (time.thread_time() - started) * 1e3


def test_a_long_row_of_numbers_is_no_danger() -> None:
    assert analyse_command("for i in {1..5000}; do curl -s http://localhost/$i; done").is_read_only
