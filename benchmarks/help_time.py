"""Time to ``drift --help``, beside the time that a bare interpreter takes to do nothing.

Each is a process of its own, started in turn so that a slow moment of the machine meets both. The median of the
repeats is reported: the mean follows whatever else the machine does.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

REPEATS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpTime:
    """Medians over ``repeats`` fresh processes each."""

    help_s: float
    bare_s: float
    repeats: int

    @property
    def ratio(self) -> float:
        return self.help_s / self.bare_s


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def measure(repeats: int = REPEATS) -> HelpTime:
    bare = [sys.executable, "-c", "pass"]
    helped = [str(Path(sys.executable).with_name("drift")), "--help"]
    seconds(bare), seconds(helped)  # the first ones read the files from the disk
    pairs = [(seconds(bare), seconds(helped)) for _ in range(repeats)]
    return HelpTime(
        bare_s=statistics.median(pair[0] for pair in pairs),
        help_s=statistics.median(pair[1] for pair in pairs),
        repeats=repeats,
    )


def main() -> None:
    found = measure()
    print(f"drift --help      {found.help_s:.3f} s   (median of {found.repeats})")
    print(f"python -c pass    {found.bare_s:.3f} s")
    print(f"ratio             {found.ratio:.2f}")
