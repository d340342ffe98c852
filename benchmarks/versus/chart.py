"""Bars as SVG, readable on light and on dark ground.

Knows nothing of what is shown: a panel is a title and its bars, each with a
label, a value, whose it is (a class of the style), and the value as text.
Where values are far apart the scale is logarithmic, and the panel says so.
"""

import html
import math

WIDTH, LABEL, ROW, GAP, TITLE = 760, 250, 19, 18, 24
VALUE = 90  # room for the text behind the longest bar
FAR_APART = 20

STYLE = """<style>
text { font: 12px sans-serif; fill: #1f2328; }
.title { font-weight: bold; }
.ours { fill: #1a7f37; }
.also { fill: #8fcf9f; }
.theirs { fill: #8c959f; }
.axis { stroke: #8c959f; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.ours { fill: #3fb950; }
.also { fill: #2a6b3a; }
.theirs { fill: #7d8590; }
}
</style>"""


def scale(values):
    """From a value to a share of the width, and whether it is logarithmic."""
    most, least = max(values), min(value for value in values if value > 0)
    if most / least < FAR_APART:
        return (lambda value: value / most), False
    low = math.floor(math.log10(least)) - 0.3
    high = math.log10(most)
    return (lambda value: max(0.0, (math.log10(max(value, least)) - low)
                              / (high - low))), True


def panel(title, bars, top):
    to_share, logarithmic = scale([bar[1] for bar in bars])
    room = WIDTH - LABEL - VALUE
    lines = ['<text class="title" x="0" y="%d">%s%s</text>' % (
        top + 14, html.escape(title),
        ", logarithmic" if logarithmic else "")]
    y = top + TITLE
    for label, value, whose, text in bars:
        length = max(1.0, room * to_share(value))
        lines += [
            '<text x="%d" y="%d" text-anchor="end">%s</text>' % (
                LABEL - 8, y + 13, html.escape(label)),
            '<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>' % (
                whose, LABEL, y + 2, length, ROW - 5),
            '<text x="%.1f" y="%d">%s</text>' % (
                LABEL + length + 6, y + 13, html.escape(text))]
        y += ROW
    lines.append('<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>' % (
        LABEL, LABEL, top + TITLE, y))
    return lines, y + GAP


def draw(name, panels):
    lines, top = [], 0
    for title, bars in panels:
        if any(bar[1] > 0 for bar in bars):
            more, top = panel(title, bars, top)
            lines += more
    head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
            'width="%d" height="%d" role="img" aria-label="%s">'
            % (WIDTH, top, WIDTH, top, html.escape(name)))
    return "\n".join([head, STYLE] + lines + ["</svg>"]) + "\n"
