"""A line of Perl that filters is let through; one that could do more is not."""

import pytest
from reading import beyond, cases

FILTERS = cases(r"""
perl -ne 'print if /ERROR/' app.log
perl -lane 'print $F[0]' f
perl -F: -lane 'print $F[0]' /etc/passwd
perl -pe 's/a/b/g; tr/a-z/A-Z/' f
perl -ne '$s += $1 if /size=(\d+)/; END { print $s }' f
perl -ne 'print if $. > 100 && $. < 120' app.log
perl -e 'print "rm -rf /"'
node -e 'console.log("rm -rf")'
node -p 'process.versions.v8'
ruby -e 'puts "drop table"'
php -r 'echo "x";'
lua -e 'print("kill")'
""")
MORE = cases(r"""
perl -pe 's/(.*)/$1/e' f
perl -ne 'print' 'id|'
perl -ne 'print if $x / 2; system("id") / 3' f
perl -ne 'print "@{[system(q(id))]}"' f
perl -ne 'print "$h{system(1)}"' f
perl -ne '/(?{system("id")})/' f
perl -ne 'BEGIN{@ARGV=("id|")} print'
perl -ne 'print `id`' f
perl -ne 'print $ENV{TOKEN}' f
perl -i -pe 's/a/b/' f
perl -MFoo -ne 'print' f
perl -pe 's/a/b/' $FILE
perl -e 'unlink "x"'
perl -F'/(?{system("id")})/' -ane 'print' f
ruby -e 'puts "#{`id`}"'
ruby -e 'puts `id`'
node -e 'console.log(require("fs"))'
node -p '`${process.mainModule.require("fs")}`'
php -r 'echo `id`;'
php -r 'echo "${x}";'
lua -e 'print(os.execute("id"))'
""")


@pytest.mark.parametrize("command", FILTERS)
def test_a_line_that_filters_or_prints_only_looks(command: str) -> None:
    assert not beyond(command)


@pytest.mark.parametrize("command", MORE)
def test_a_line_that_could_do_more_is_held(command: str) -> None:
    assert beyond(command)
