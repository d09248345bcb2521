"""Reads the JSON of an answer, strictly."""

from __future__ import annotations

import json
from typing import Any


def parsed(content: bytes) -> Any:
    """JSON, with ``-Infinity`` as the number that some servers write for *no probability*.

    ``ValueError`` for anything else: a cut text, NaN, a number that is none, nesting without end, a bare value.
    """
    try:
        body = json.loads(content, parse_constant=_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("no UTF-8") from None
    if not isinstance(body, dict | list):
        raise ValueError("neither an object nor a list")
    return body


def _constant(text: str) -> float:
    if text == "-Infinity":
        return float("-inf")
    raise ValueError(f"{text} where a number was expected")
