"""Runs the demo in a terminal of its own, kills the leader by a key, and draws the screen as SVG.

    demo_picture.py FILE.svg PROGRAM ARGUMENT…
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from html import escape

import pyte

COLUMNS, ROWS = 96, 26
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14
BACKGROUND, TEXT = "#1d2021", "#d5c4a1"
COLORS = {
    "black": "#665c54", "red": "#fb4934", "green": "#b8bb26", "brown": "#fabd2f", "blue": "#83a598",
    "magenta": "#d3869b", "cyan": "#8ec07c", "white": "#ebdbb2", "default": TEXT,
}


def record(command, keys, seconds):
    """The screen after `seconds`; `keys` maps instants to what is typed then."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.environ.pop("NO_COLOR", None)
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, waiting = time.monotonic(), sorted(keys.items())
    while (elapsed := time.monotonic() - began) < seconds:
        while waiting and waiting[0][0] <= elapsed:
            os.write(terminal, waiting.pop(0)[1])
        if select.select([terminal], [], [], 0.05)[0]:
            stream.feed(os.read(terminal, 65536))
    os.kill(child, signal.SIGINT)
    while True:  # until the demo has put everything away
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:
            break
    os.waitpid(child, 0)
    return screen


def color(name):
    return COLORS.get(name, f"#{name}" if len(name) == 6 else TEXT)


def spans(line):
    """Runs of characters of one look, as (column, text, color, bold)."""
    runs = []
    for column in range(COLUMNS):
        cell = line[column]
        look = (color(cell.fg), cell.bold)
        if runs and runs[-1][2:] == look:
            runs[-1] = (runs[-1][0], runs[-1][1] + cell.data, *look)
        else:
            runs.append((column, cell.data, *look))
    return [run for run in runs if run[1].strip()]


def svg(screen):
    rows = max(row for row in range(ROWS) if screen.display[row].strip()) + 1
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = rows * CELL_HEIGHT + 2 * MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14">'
    )
    yield f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
    for row in range(rows):
        y = MARGIN + (row + 0.75) * CELL_HEIGHT
        for column, text, fill, bold in spans(screen.buffer[row]):
            x, length = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
            weight = ' font-weight="bold"' if bold else ""
            yield (
                f'<text x="{x:.1f}" y="{y:.1f}" textLength="{length:.1f}" fill="{fill}"{weight} '
                f'xml:space="preserve">{escape(text)}</text>'
            )
    yield "</svg>"


target, *command = sys.argv[1:]
# The leader is killed by its key once it has written for a while.
screen = record(command, {12: b"k"}, 34)
with open(target, "w") as file:
    file.write("\n".join(svg(screen)) + "\n")
