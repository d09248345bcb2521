"""Hardware as a person reads it: without the list of features that an engine says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FLAGS = re.compile(r"\s*\[[^\]]*\]")


def hardware_words(values: Iterable[str]) -> dict[str, str]:
    """What is observed of machines, by their full text: features of processors and backends are left out.

    ``x86_64 NAME [avx ...]; CPU : SSE3 = 1 | ...`` is ``x86_64 NAME, CPU``. Two that would read alike stay in full.
    """
    full = list(dict.fromkeys(values))
    short = {}
    for value in full:
        parts = [part.partition(" : ")[0].strip() for part in _FLAGS.sub("", value).split(";")]
        short[value] = ", ".join(part for part in parts if part) or value
    often = list(short.values())
    return {value: words if often.count(words) == 1 else value for value, words in short.items()}
