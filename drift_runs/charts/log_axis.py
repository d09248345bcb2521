"""Ticks of a log axis: one line a decade, because the ticks between would fill the page with lines."""

from __future__ import annotations

import math


def decades(low: float, high: float) -> list[float]:
    """Powers of ten in [low, high], thinned where there are many; the ends when there are fewer than two."""
    exponents = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    step = 1 + len(exponents) // 8
    return [10.0**exponent for exponent in exponents[::step]] if len(exponents) > 1 else [low, high]
