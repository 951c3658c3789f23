"""Digests move with meaning and with nothing else."""

from __future__ import annotations

import subprocess
import sys

from adapters.digests import canonical, digest_of, meaning_of_source, name_of

PLAIN = "def f(x):\n    return x + 1\n"
DRESSED = 'def f(x):\n    """Adds one."""\n\n    # why\n    return x + 1  # here\n'


def test_comments_docstrings_and_blank_lines_do_not_count() -> None:
    assert meaning_of_source(DRESSED) == meaning_of_source(PLAIN)


def test_a_hash_in_text_is_not_a_comment() -> None:
    assert meaning_of_source('x = "# a"  # b\n') == 'x = "# a"'


def test_changed_code_changes_the_meaning() -> None:
    assert meaning_of_source(PLAIN.replace("+ 1", "+ 2")) != meaning_of_source(PLAIN)
    assert meaning_of_source("if a:\n    b()\n    c()\n") != meaning_of_source("if a:\n    b()\nc()\n")


def test_canonical_json_ignores_order_of_keys() -> None:
    assert canonical({"b": 1, "a": [True, None]}) == b'{"a":[true,null],"b":1}'
    assert digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})


def test_our_functions_have_one_name_under_both_package_names() -> None:
    code = "from spyre_adapters.digests import name_of; print(name_of(name_of))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == name_of(name_of) == "adapters.digests.name_of"
