"""Does a literal stand in a text as a word of its own, and not as a part of a longer one?"""

from __future__ import annotations

import re

# Scripts that are written without spaces, and Hangul, whose particles follow a word without one: their characters end
# a word rather than go on with it. Thai and Lao, Myanmar, Khmer, CJK with kana, Hangul, more CJK.
_END = re.compile(
    r"\W|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)


def stands_alone(literal: str, text: str, start: int = 0) -> bool:
    """Whether ``literal`` stands in ``text[start:]``, case and all, and no word or number goes on at either end.

    A letter, digit or underscore beside it goes on with it: 5432 is not in 54321. So does a decimal point with a digit
    behind it beside a digit: 5 is not in 5.4, and 10.0.0.1 not in 10.0.0.1.7. Characters of scripts without spaces end
    a word. ``text[:start]`` is looked at for what goes before.
    """
    at = text.find(literal, start)
    while at >= 0:
        if not _goes_on(text, at - 1, at, -1) and not _goes_on(text, at + len(literal), at + len(literal) - 1, 1):
            return True
        # Whatever starts within this word or right behind it has a letter of it before.
        end = _END.search(text, at)
        at = text.find(literal, end.start() + 1) if end else -1
    return False


def _goes_on(text: str, beside: int, edge: int, step: int) -> bool:
    """Whether the character at ``beside`` goes on with the literal whose last character on that side is at ``edge``."""
    if not 0 <= beside < len(text):
        return False
    if text[beside] != ".":
        return not _END.match(text[beside])
    behind = beside + step
    return _is_digit(text[edge]) and 0 <= behind < len(text) and _is_digit(text[behind])


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"
