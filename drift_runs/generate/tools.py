"""The calls of Hermes and Qwen, ``<tool_call>{json}</tool_call>``, for what knows one syntax only."""

from __future__ import annotations

from drift_runs.generate.calls import Call, Malformed, NoCall, WellFormed, misfit, strict_json
from drift_runs.generate.syntaxes import parse
from drift_runs.generate.syntaxes.hermes import CLOSE, OPEN

__all__ = ["CLOSE", "OPEN", "Call", "Malformed", "NoCall", "WellFormed", "misfit", "parse_calls", "strict_json"]


def parse_calls(text: str) -> NoCall | Malformed | WellFormed:
    """Every call of a text in the syntax of Hermes, in order. A tag inside a JSON string is part of the string."""
    return parse("hermes", text)
