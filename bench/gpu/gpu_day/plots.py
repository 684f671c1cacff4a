"""A scatter of measured and expected figures on logarithmic axes, as SVG."""

import math

SIZE, EDGE = 420, 48


def write(path, title, points):
    points = [(x, y) for x, y in points if x > 0 and y > 0]
    if not points:
        return
    low = math.floor(min(math.log10(v) for p in points for v in p))
    high = math.ceil(max(math.log10(v) for p in points for v in p) + 1e-9)

    def at(value):
        return EDGE + (math.log10(value) - low) / max(1, high - low) * (SIZE - 2 * EDGE)

    ticks = [10.0**k for k in range(low, high + 1)]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" font-family="sans-serif" font-size="11">',
             f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
             f'<line x1="{EDGE}" y1="{SIZE - EDGE}" x2="{SIZE - EDGE}" y2="{EDGE}" stroke="#999"/>']
    for tick in ticks:
        x = at(tick)
        lines += [f'<text x="{x:.1f}" y="{SIZE - EDGE + 16}" text-anchor="middle">{tick:g}</text>',
                  f'<text x="{EDGE - 6}" y="{SIZE - x + 4:.1f}" text-anchor="end">{tick:g}</text>']
    lines += [f'<circle cx="{at(x):.1f}" cy="{SIZE - at(y):.1f}" r="2" fill="#06c" fill-opacity="0.5"/>' for x, y in points]
    lines += [f'<text x="{SIZE / 2}" y="{SIZE - 10}" text-anchor="middle">measured {title}</text>',
              f'<text x="14" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 14 {SIZE / 2})">planned</text>', "</svg>"]
    path.write_text("\n".join(lines) + "\n")
