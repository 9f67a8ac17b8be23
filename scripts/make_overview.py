#!/usr/bin/env python3
"""Draws docs/overview.svg: the way of a batch through the folders of src/. Run it after changing the tables below.

  scripts/make_overview.py > docs/overview.svg
"""
from html import escape

# The way of a batch, in the order of execution: folder, what it makes, what it hands on.
WAY = [
    ('config', 'recipe YAML to typed settings', 'settings'),
    ('data', 'text, .bin/.idx to samples', 'micro-batches'),
    ('train', 'schedule of actions, memory plan', 'actions'),
    ('model', 'forward and backward, op by op', 'ops'),
    ('backend', 'reference, cpu, cuda, cost', 'losses, gradients'),
    ('train', 'clip, AdamW, checkpoint', 'step records'),
    ('telemetry', 'console, DLLogger, TensorBoard, csv', ''),
]
# What several of them use: folder, what it is, the first and last row of the way beside it.
BESIDE = [
    ('tensor', 'views, operands, arenas', (0, 1)),
    ('comm', 'ranks meet; collectives on streams', (2, 5)),
]
AROUND = [('cli', 'commands'), ('convert', 'Hugging Face in and out'), ('report', 'logs read back'), ('fetch', 'files from the net'),
          ('base', 'errors, files, units, philox')]

WIDTH, BOX, HEIGHT, GAP = 860, 430, 46, 26
FONT = 'font-family="system-ui, sans-serif"'


def text(x, y, content, size=14, weight='normal', anchor='start', fill='#1b2733'):
    return (f'<text x="{x}" y="{y}" {FONT} font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
            f'fill="{fill}">{escape(content)}</text>')


def box(x, y, width, height, name, content, fill):
    return [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="#5b7083"/>',
            text(x + 14, y + height / 2 + 5, name + '/', 15, 'bold'),
            text(x + width - 14, y + height / 2 + 5, content, 13, anchor='end')]


def main():
    step = HEIGHT + GAP
    bottom = 20 + len(WAY) * step
    height = bottom + 70
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
             '<!-- made by scripts/make_overview.py -->',
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    for i, (name, content, hands_on) in enumerate(WAY):
        y = 20 + i * step
        parts += box(20, y, BOX, HEIGHT, name, content, '#e8f1f8')
        if i + 1 < len(WAY):
            parts.append(f'<path d="M{20 + BOX / 2} {y + HEIGHT} v{GAP - 7} m-5 0 l5 6 l5 -6" fill="none" stroke="#5b7083"/>')
            parts.append(text(20 + BOX / 2 + 12, y + HEIGHT + 17, hands_on, 12, fill='#44586a'))
    for name, content, (first, last) in BESIDE:
        parts += box(480, 20 + first * step, WIDTH - 500, (last - first) * step + HEIGHT, name, content, '#f3efe2')
    for i, (name, content) in enumerate(AROUND):
        width = (WIDTH - 40 - 4 * 10) / 5
        x = 20 + i * (width + 10)
        parts.append(f'<rect x="{x:.0f}" y="{bottom}" width="{width:.0f}" height="50" rx="6" fill="#eef2ea" stroke="#5b7083"/>')
        parts.append(text(f'{x + width / 2:.0f}', bottom + 21, name + '/', 14, 'bold', 'middle'))
        parts.append(text(f'{x + width / 2:.0f}', bottom + 39, content, 11, anchor='middle'))
    print('\n'.join(parts + ['</svg>']))


if __name__ == '__main__':
    main()
