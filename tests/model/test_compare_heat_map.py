"""The heat map: what stands in a cell, that it can be read, and the picture's size."""

from __future__ import annotations

import io
from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest

from slubviz.model.compare import ComparedCell, CompareRequest, Comparison
from slubviz.model.compare_table import published_cells
from slubviz.model.heatmap import CLIP_PERCENT, colour_of, error_text, heat_map_png, text_colour


def every_cell(machine: str, factor: float) -> Comparison:
    cells = [
        ComparedCell(c.key, c.low, c.high, (c.low * factor,), c.low * factor, c.low * factor)
        for c in published_cells()
        if c.key.machine == machine
    ]
    return Comparison(CompareRequest(machine), tuple(cells), len(cells))


def luminance(colour: str | tuple[float, ...]) -> float:
    if isinstance(colour, str):
        colour = tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("error", np.linspace(-80, 80, 65))
def test_every_number_has_contrast(error: float) -> None:
    background = colour_of(error)
    light, dark = sorted((luminance(background), luminance(text_colour(background))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_the_scale_is_clipped_and_centred() -> None:
    assert colour_of(CLIP_PERCENT) == colour_of(900) != colour_of(CLIP_PERCENT - 5)
    assert colour_of(-CLIP_PERCENT) == colour_of(-99)
    red, blue, white = colour_of(50), colour_of(-50), colour_of(0)
    assert red[0] > 2 * red[2]
    assert blue[2] > 2 * blue[0]
    assert min(white[:3]) > 0.95


@pytest.mark.parametrize(
    ("error", "text"), [(0, "0"), (0.04, "+0.0"), (-0.4, "-0.4"), (7.2, "+7"), (-63.4, "-63"), (0.96, "+1")]
)
def test_the_text_of_a_cell(error: float, text: str) -> None:
    assert error_text(error) == text


def test_the_picture() -> None:
    data = heat_map_png(every_cell("e5345_8p", 1.4))
    picture = matplotlib.image.imread(io.BytesIO(data))
    assert picture.shape[1] == 1600
    assert heat_map_png(every_cell("e5345_8p", 1.4)) == data
    # Nearly every cell has the colour of +40 %: cells cover a good part of the picture.
    wanted = np.array(colour_of(40)[:3])
    share = (np.abs(picture[..., :3] - wanted).max(axis=-1) < 0.01).mean()
    assert 0.2 < share < 0.5
    assert heat_map_png(every_cell("e5345_8p", 0.6)) != data


@pytest.mark.parametrize("machine", ["ia64_8p_4n", "p4_3ghz_up", "i7_4790k", "amd64"])
def test_every_machine_can_be_drawn(machine: str) -> None:
    data = heat_map_png(every_cell(machine, 1.1), width_pixels=900)
    assert matplotlib.image.imread(io.BytesIO(data)).shape[1] == 900


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        heat_map_png(replace(every_cell("amd64", 1), cells=()))
