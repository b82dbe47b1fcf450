"""Bar charts as SVG: panels one below the other, all on the same scales. Draws, measures nothing.

panel   title
        4 ┤   ▂ ░░░░ █▂
        0 ┴▂▂▂▂▂░░░░▂██▂▂▂▂   grey: stretches that a word names
          100     200     300
"""

from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _MARGIN = 900, 150, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart."""

    title: str
    bars: Sequence[tuple[float, float]]
    """Where each begins, and its height."""
    width: float
    """Of every bar."""
    grey: Sequence[tuple[float, float]] = ()
    """Where each grey stretch begins and ends."""
    grey_name: str = ""


def svg(title: str, panels: Sequence[Panel], *, shown: range) -> str:
    """The panels from `shown.start` to `shown.stop`, labelled every `shown.step`."""
    scale = _Scale(shown, max(height for panel in panels for _, height in panel.bars))
    drawn = [scale.panel(panel, index * (_HEIGHT + _MARGIN)) for index, panel in enumerate(panels)]
    height = len(panels) * (_HEIGHT + _MARGIN) + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _MARGIN} {height}" '
        'font-family="sans-serif" font-size="13">\n'
        f"<title>{title}</title>\n"
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


class _Scale:
    """Places of what is drawn."""

    def __init__(self, shown: range, most: float) -> None:
        self._shown, self._most = shown, most
        self._unit_width = _WIDTH / (shown.stop - shown.start)

    def panel(self, panel: Panel, top: float) -> str:
        ceiling, floor = top + _MARGIN, top + _MARGIN + _HEIGHT
        parts = [_words(_MARGIN, top + 26, panel.title, "start")]
        for start, stop in panel.grey:
            parts.append(self._bar(start, stop - start, ceiling, _HEIGHT, "#e6e6e6"))
            parts.append(_words(self._x((start + stop) / 2), ceiling + 20, panel.grey_name))
        parts += [
            _words(_MARGIN - 12, floor + 5, "0"),
            _words(_MARGIN - 12, ceiling + 5, f"{self._most:.2g}"),
            f'<path d="M {_MARGIN} {floor} h {_WIDTH}" stroke="#444444"/>',
        ]
        for start, height in panel.bars:
            if height and self._shown.start <= start < self._shown.stop:
                rise = _HEIGHT / self._most * height
                parts.append(self._bar(start, panel.width, floor - rise, rise, "#2f6db3"))
        parts += [_words(self._x(place), floor + 16, str(place)) for place in self._shown]
        return "\n".join(parts)

    def _x(self, place: float) -> float:
        return _MARGIN + (place - self._shown.start) * self._unit_width

    def _bar(self, start: float, width: float, y: float, height: float, fill: str) -> str:
        return (
            f'<rect x="{self._x(start):.1f}" y="{y:.1f}" width="{width * self._unit_width:.2f}" '
            f'height="{height:.1f}" fill="{fill}"/>'
        )


def _words(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'
