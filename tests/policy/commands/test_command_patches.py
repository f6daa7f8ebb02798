"""The program `patch` shows lines of the files that its words or its input name."""

import pytest
from reading import cases, effects

SHOWN = r"""
patch -o /tmp/out -i fix.patch
patch --output=/tmp/out < fix.patch
patch --dry-run -p1 < fix.patch
patch -p1 -r - < fix.patch
patch -D X -o /tmp/out -i "$f"
patch -o /tmp/out .env fix.patch
patch -o /tmp/out -d /srv .env < fix.patch
patch --dry-run -p0 <<'X'⏎--- .env⏎+++ .env⏎@@ -1 +1 @@⏎-a⏎+b⏎X
patch -p1 -o /tmp/out <<'X'⏎--- a/.env⏎+++ b/.env⏎@@ -1 +1 @@⏎-a⏎+b⏎X
patch -o /tmp/out <<'X'⏎Index: keys/id_rsa⏎@@ -1 +1 @@⏎-a⏎+b⏎X
patch -p1 <<'X'⏎diff --git a/x b/.env⏎rename from x⏎rename to .env⏎X
"""
PLAIN = r"""
patch -o /tmp/out a.txt fix.patch
patch -p1 < fix.patch
patch --dry-run -p1 <<'X'⏎--- a/x.c⏎+++ b/x.c⏎@@ -1 +1 @@⏎-a⏎+b⏎X
"""


@pytest.mark.parametrize("command", cases(SHOWN))
def test_a_patch_that_may_show_a_secret_file_is_marked(command: str) -> None:
    assert "secret-read" in effects(command)


@pytest.mark.parametrize("command", cases(PLAIN))
def test_a_patch_of_other_files_shows_no_secret(command: str) -> None:
    assert "secret-read" not in effects(command)
