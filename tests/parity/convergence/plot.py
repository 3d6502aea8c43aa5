"""The curves of a comparison as one SVG file: test accuracy and training loss by epoch. Standard library only."""

COLOURS = {"Lockstep": "#1f5fa8", "PyTorch": "#d1651f"}
PANEL_WIDTH, PANEL_HEIGHT = 380, 260
LEFT, TOP, GAP, BOTTOM = 56, 64, 76, 48
TICKS = 5


def _range(values):
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


def _text(x, y, text, anchor="middle", size=12, colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{text}</text>'


def _panel(title, left, curves, as_percent):
    """curves: {side: [values by epoch of one seed, ...]}; a mean is drawn over thin lines of the single seeds."""
    epochs = len(next(iter(curves.values()))[0])
    low, high = _range([value for runs in curves.values() for run in runs for value in run])

    def x(epoch):
        return left + PANEL_WIDTH * ((epoch - 1) / (epochs - 1) if epochs > 1 else 0.5)

    def y(value):
        return TOP + PANEL_HEIGHT * (high - value) / (high - low)

    parts = [_text(left, TOP - 12, title, "start", 13)]
    for tick in range(TICKS):
        value = low + (high - low) * tick / (TICKS - 1)
        label = f"{100 * value:.0f}%" if as_percent else f"{value:.2f}"
        parts.append(f'<line x1="{left}" y1="{y(value):.1f}" x2="{left + PANEL_WIDTH}" y2="{y(value):.1f}" '
                     f'stroke="#ddd"/>')
        parts.append(_text(left - 6, y(value) + 4, label, "end", 11))
    for epoch in range(1, epochs + 1):
        parts.append(_text(x(epoch), TOP + PANEL_HEIGHT + 18, str(epoch), size=11))
    parts.append(_text(left + PANEL_WIDTH / 2, TOP + PANEL_HEIGHT + 36, "epochs trained"))
    for side, runs in curves.items():
        mean = [sum(values) / len(runs) for values in zip(*runs)]
        lines = [(run, 1, 0.4) for run in runs if len(runs) > 1] + [(mean, 2.5, 1)]
        for values, width, opacity in lines:
            points = " ".join(f"{x(i + 1):.1f},{y(value):.1f}" for i, value in enumerate(values))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[side]}" stroke-width="{width}" '
                         f'stroke-opacity="{opacity}"/>')
        parts += [f'<circle cx="{x(i + 1):.1f}" cy="{y(value):.1f}" r="3" fill="{COLOURS[side]}"/>'
                  for i, value in enumerate(mean)]
    return parts


def write(path, title, runs):
    """runs: {"Lockstep" or "PyTorch": [one list of epoch records a seed]}."""
    width, height = LEFT + 2 * PANEL_WIDTH + GAP + 20, TOP + PANEL_HEIGHT + BOTTOM

    def curves(key):
        return {side: [[record[key] for record in run] for run in seeds] for side, seeds in runs.items()}

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>', _text(LEFT, 24, title, "start", 15)]
    for i, side in enumerate(runs):
        at = width - 220 + 110 * i
        parts.append(f'<line x1="{at}" y1="20" x2="{at + 22}" y2="20" stroke="{COLOURS[side]}" stroke-width="2.5"/>')
        parts.append(_text(at + 28, 24, side, "start"))
    parts += _panel("Test accuracy", LEFT, curves("test_accuracy"), True)
    parts += _panel("Training loss", LEFT + PANEL_WIDTH + GAP, curves("train_loss"), False)
    path.write_text("\n".join(parts + ["</svg>", ""]))
