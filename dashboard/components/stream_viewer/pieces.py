"""One token as pieces that can only be read: text, signs for what leaves no ink, and bytes that are no characters."""

from __future__ import annotations

from itertools import groupby

from dashboard.components.markup import visible

TEXT, SIGN, BYTES, BREAK = "t", "s", "b", "n"
"""Kinds of a piece: letters as they are; a sign in place of a blank, control or direction mark; bytes in hexadecimal;
a line end after its sign."""
Piece = tuple[str, str]


def pieces(data: bytes) -> list[Piece]:
    """A token's bytes as pieces of a kind and a text, in order. Nothing in them can reorder, colour or hide a line."""
    found: list[Piece] = []
    for kind, run in groupby(map(_piece, data.decode("utf-8", "surrogateescape")), key=lambda piece: piece[0]):
        texts = [text for _, text in run]
        if kind != SIGN:
            found.append((kind, (" " if kind == BYTES else "").join(texts)))
            continue
        for text in texts:
            found.append((SIGN, text))
            if text == _LINE_END:
                found.append((BREAK, ""))
    return found


def plain(found: list[Piece]) -> str:
    """Pieces as one text, for a label that is read out."""
    return "".join(f"bytes {text} " if kind == BYTES else text for kind, text in found).strip()


def _piece(letter: str) -> Piece:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how surrogateescape writes a byte that is no UTF-8
        return BYTES, f"{code - 0xDC00:02X}"
    shown = visible(letter, spaces=True)
    if shown != letter:
        return SIGN, shown
    if not letter.isprintable():
        return SIGN, f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return TEXT, letter


_LINE_END = visible("\n")
