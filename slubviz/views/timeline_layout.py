"""Where the parts of a timeline are: legend, ruler, marks of the run, lanes.

Numbers only.  Heights of lanes are whole device pixels so that all lanes look alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Height of a lane in logical pixels: as low as can be read well, the lowest, the highest.
_GOOD_PITCH = 9
_LEAST_PITCH = 6
_MOST_PITCH = 56
#: From this height on legend and both rulers stay even if lanes have to be scrolled.
_FULL_HEIGHT = 150
#: Room for marks at the right edge, and for the scroll bars.
RIGHT_PAD = 8
BAR_PIXELS = 10
_PAD = 4
#: Height of the strip with the marks of the whole run.
_FLAGS_PIXELS = 15


@dataclass(frozen=True)
class TimelineLayout:
    """Places in logical pixels."""

    width: float
    height: float
    unit: float  #: device pixels per logical pixel
    line: float  #: height of a line of text
    plot_x: float  #: left edge of lanes and rulers
    plot_width: float
    has_legend: bool  #: a low timeline does without, and without the ruler of cycles
    has_cycles: bool
    ruler_y: float  #: micro-ops; cycles are one line below
    flags_y: float
    lanes_y: float
    pitch_device: int  #: from lane to lane, device pixels
    cpus: range  #: whose lanes are visible
    all_cpus: int

    @property
    def legend_y(self) -> float:
        """Of the legend, and of the difference of the markers."""
        return _PAD if self.has_legend else self.flags_y

    @property
    def cycles_y(self) -> float:
        """Of the ruler of cycles."""
        return self.ruler_y + self.line

    @property
    def pitch(self) -> float:
        """From lane to lane in logical pixels."""
        return self.pitch_device / self.unit

    @property
    def lanes_height(self) -> float:
        """Of all visible lanes."""
        return self.pitch * len(self.cpus)

    @property
    def flags_height(self) -> float:
        """Of the strip with the marks of the run."""
        return _FLAGS_PIXELS

    @property
    def columns(self) -> int:
        """Device pixels across the lanes."""
        return max(round(self.plot_width * self.unit), 1)

    def fraction(self, x: float) -> float:
        """A place across the lanes: 0 at their left edge, 1 at their right one."""
        return (x - self.plot_x) / self.plot_width

    def lane_y(self, cpu: int) -> float:
        """The middle of a CPU's lane."""
        return self.lanes_y + (cpu - self.cpus.start + 0.5) * self.pitch

    def cpu_at(self, y: float) -> int:
        """The CPU whose lane is at a height; -1 for none."""
        index = math.floor((y - self.lanes_y) / self.pitch)
        return self.cpus.start + index if 0 <= index < len(self.cpus) else -1

    def in_flags(self, y: float) -> bool:
        """Whether a height is in the strip with the marks of the run."""
        return self.flags_y <= y < self.lanes_y


def lay_out(
    width: float, height: float, cpus: int, unit: float, line: float, label_width: float, first_cpu: int = 0
) -> TimelineLayout:
    """Divide a widget.

    Parameters
    ----------
    width, height : float
        Logical pixels.
    cpus : int
        Lanes; those that have no room are reached by scrolling.
    unit : float
        Device pixels per logical pixel.
    line, label_width : float
        Height of a line of text, width of the longest label on the left.
    first_cpu : int
        The uppermost lane, as far as the others fill the room.
    """
    least, good, most = (round(pitch * unit) for pitch in (_LEAST_PITCH, _GOOD_PITCH, _MOST_PITCH))
    # What is above the lanes gives way to them one by one.
    heads = [_head(line, unit, *rows) for rows in ((True, True), (False, True), (False, False))]
    rooms = [max(math.floor((height - head.lanes_y - BAR_PIXELS - 1) * unit), 1) for head in heads]
    fitting = [index for index, room in enumerate(rooms) if room // max(cpus, 1) >= good]
    index = fitting[0] if fitting else 0 if height >= _FULL_HEIGHT else -1
    head, room = heads[index], rooms[index]
    pitch = min(max(room // max(cpus, 1), good if height >= _FULL_HEIGHT else least), most)
    fit = min(max(room // pitch, 1), cpus)
    first = min(max(first_cpu, 0), cpus - fit)
    right = RIGHT_PAD + (BAR_PIXELS if fit < cpus else 0)
    return TimelineLayout(
        width=width,
        height=height,
        unit=unit,
        line=line,
        plot_x=math.ceil(label_width * unit) / unit,
        plot_width=max(width - label_width - right, 1.0),
        has_legend=head.has_legend,
        has_cycles=head.has_cycles,
        ruler_y=head.ruler_y,
        flags_y=head.flags_y,
        lanes_y=head.lanes_y,
        pitch_device=pitch,
        cpus=range(first, first + fit),
        all_cpus=cpus,
    )


@dataclass(frozen=True)
class _Head:
    has_legend: bool
    has_cycles: bool
    ruler_y: float
    flags_y: float
    lanes_y: float


def _head(line: float, unit: float, has_legend: bool, has_cycles: bool) -> _Head:
    ruler_y = _PAD + line + 4 if has_legend else _PAD
    flags_y = ruler_y + (2 if has_cycles else 1) * line
    lanes_y = math.ceil((flags_y + _FLAGS_PIXELS) * unit) / unit
    return _Head(has_legend, has_cycles, ruler_y, flags_y, lanes_y)
