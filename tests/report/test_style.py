"""The style sheet: what is written can be read, in both themes."""

from __future__ import annotations

import re

import pytest

from progevo.report.page import part

THEMES = re.findall(r"color-scheme: (light|dark);(.*?)\}", part("page.css"), re.DOTALL)

#: Words in these colours stand on these grounds.
WORDS = {
    "ink": ("paper", "panel", "gone", "new"),
    "quiet": ("paper", "panel", "gone", "new"),
    "accent": ("paper", "panel"),
    "bad": ("panel",),
    "text": ("panel", "gone", "new"),
    "word": ("panel", "gone", "new"),
    "digits": ("panel", "gone", "new"),
}


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_by_hand():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_dark_theme_is_one_whether_the_system_or_the_button_chose_it():
    light, *dark = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", body)) for _, body in THEMES]
    assert [name for name, _ in THEMES] == ["light", "dark", "dark"]
    assert dark[0] == dark[1]
    assert light.keys() == dark[0].keys()


@pytest.mark.parametrize(("name", "body"), THEMES[:2])
def test_words_stand_out_from_their_ground(name, body):
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", body))
    found = {
        (word, ground): contrast(colours[word], colours[ground])
        for word, grounds in WORDS.items()
        for ground in grounds
    }
    assert {pair: round(value, 2) for pair, value in found.items() if value < 4.5} == {}
    ranks = [colours[f"rank-{place}"] for place in range(5)]
    assert [luminance(colour) for colour in ranks] == sorted(map(luminance, ranks))  # told apart without hue


def test_nothing_is_loaded():
    assert not re.search(r"url\(|@import|@font-face|expression\(", part("page.css"))
