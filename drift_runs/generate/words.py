"""Does a literal stand in a text as a word of its own, and not as a part of a longer one?"""

from __future__ import annotations

# Scripts that are written without spaces, and Hangul, whose particles follow a word without one: their characters end
# a word rather than go on with it.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # CJK, kana
    (0xAC00, 0xD7AF),  # Hangul
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
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
        at = text.find(literal, at + 1)
    return False


def _goes_on(text: str, beside: int, edge: int, step: int) -> bool:
    """Whether the character at ``beside`` goes on with the literal whose last character on that side is at ``edge``."""
    if not 0 <= beside < len(text):
        return False
    if text[beside] != ".":
        return _is_of_word(text[beside])
    behind = beside + step
    return _is_digit(text[edge]) and 0 <= behind < len(text) and _is_digit(text[behind])


def _is_of_word(character: str) -> bool:
    code = ord(character)
    return (character == "_" or character.isalnum()) and not any(low <= code <= high for low, high in _UNSPACED)


def _is_digit(character: str) -> bool:
    return "0" <= character <= "9"
