"""Fenced blocks of a text: lines between two fences of three backticks or tildes or more."""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ ]{0,3}(?P<marks>`{3,}+|~{3,}+)(?P<rest>.*)", re.DOTALL)


def unfenced(text: str) -> str:
    """What is in the one fenced block of a text; the text itself where it has none, several, or one that stays open.

    A block ends at a line of as many marks or more and nothing else. Its opening line may name a language.
    """
    blocks: list[str] = []
    inside: list[str] = []
    marks = ""
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if not marks:
            if fence and not (fence["marks"][0] == "`" and "`" in fence["rest"]):
                marks, inside = fence["marks"], []
        elif fence and fence["marks"].startswith(marks) and not fence["rest"].strip():
            blocks.append("\n".join(inside))
            marks = ""
        else:
            inside.append(line)
    return blocks[0] if len(blocks) == 1 and not marks else text
