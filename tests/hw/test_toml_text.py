"""TOML from anybody: what it means, and what is refused before it takes long."""

from __future__ import annotations

import pytest

from slubviz.hw.toml_text import MOST_DOTS, parse_toml


def test_a_document_is_read() -> None:
    text = "a." * MOST_DOTS + "b = 7\n" + '[t]\nname = "1.5"\n'
    assert parse_toml("a = 1\n[b]\nc = [1, 2]\n") == {"a": 1, "b": {"c": [1, 2]}}
    found = parse_toml(text)
    assert found["t"] == {"name": "1.5"}
    for _ in range(MOST_DOTS):
        found = found["a"]
    assert found == {"b": 7}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\n" + "a." * 100_000 + "a = 1", "more than 200 dots (at line 2)"),  # minutes in tomllib
        ("[" + "a." * 100_000 + "a]", "more than 200 dots (at line 1)"),
        ("t = {" + "a." * 100_000 + "a = 1}", "more than 200 dots (at line 1)"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "a number has thousands of digits"),
        ("a = [", "Invalid value (at end of document)"),
    ],
    ids=range(6),
)
def test_why_it_is_no_toml_is_told_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        parse_toml(text)
    assert str(caught.value) == reason
