"""Calls written as each syntax writes them, and what can be written so."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Drawn = list[tuple[str, dict[str, Any]]]

_TEXTS = st.text(max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)
_ARGUMENTS = st.dictionaries(st.text(max_size=6), _VALUES, max_size=3)
_WORDS = st.text("abcXYZ0189_-.", min_size=1, max_size=8)
# No tag of the format, no line break before the one that is markup.
_BARE = st.text(st.characters(exclude_characters="<\r", codec="utf-8"), max_size=12)
_KEYS = st.text(st.characters(exclude_characters="<>\r\n", codec="utf-8"), min_size=1, max_size=6).filter(
    lambda key: key == key.strip()
)

DRAWN = {
    "hermes": st.lists(st.tuples(_TEXTS, _ARGUMENTS), min_size=1, max_size=3),
    "openai-json": st.lists(st.tuples(_TEXTS, _ARGUMENTS), min_size=1, max_size=3),
    "mistral": st.lists(st.tuples(_WORDS, _ARGUMENTS), min_size=1, max_size=3),
    "llama3": st.lists(st.tuples(_TEXTS, _ARGUMENTS), min_size=1, max_size=3),
    "fenced-json": st.lists(st.tuples(_TEXTS, _ARGUMENTS), min_size=1, max_size=3),
    "qwen3-coder": st.lists(st.tuples(_KEYS, st.dictionaries(_KEYS, _BARE, max_size=3)), min_size=1, max_size=3),
}


def rendered(syntax: str, calls: Drawn, *, form: int = 0) -> str:
    """The calls as a model writes them; ``form``: which of the syntax's forms, counted from 0."""
    pieces = []
    for at, (name, arguments) in enumerate(calls):
        spelled = json.dumps(arguments, ensure_ascii=form == 1)
        if syntax == "hermes":
            pieces.append(f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {spelled}}}\n</tool_call>')
        elif syntax == "openai-json":
            given = json.dumps(spelled) if form == 0 else spelled
            function = f'{{"name": {json.dumps(name)}, "arguments": {given}}}'
            pieces.append(f'{{"id": "call_{at}", "type": "function", "function": {function}}}')
        elif syntax == "mistral" and form == 0:
            pieces.append(f"[TOOL_CALLS]{name}[ARGS]{spelled}")
        elif syntax in ("mistral", "fenced-json"):
            pieces.append(f'{{"arguments": {spelled}, "name": {json.dumps(name)}}}')
        elif syntax == "llama3":
            pieces.append(f'{{"name": {json.dumps(name)}, "parameters": {spelled}}}')
        else:
            values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
            pieces.append(f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>")
    if syntax == "openai-json":
        array = f"[{', '.join(pieces)}]"
        return array if form == 0 else f'{{"role": "assistant", "content": null, "tool_calls": {array}}}'
    if syntax == "mistral":
        return "".join(pieces) if form == 0 else f"[TOOL_CALLS] [{', '.join(pieces)}]"
    if syntax == "llama3":
        return ("<|python_tag|>" if form == 1 else "") + "; ".join(pieces)
    if syntax == "fenced-json":
        if form == 1:
            return f"```json\n[{', '.join(pieces)}]\n```"
        return "\n".join(f"```json\n{piece}\n```" for piece in pieces)
    return "\n".join(pieces)
