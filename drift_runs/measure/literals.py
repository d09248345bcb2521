r"""Literals that a text repeats: numbers, addresses, paths, quoted strings, identifiers (METRICS, `literal`).

A model that repeats a literal has to copy it: the next token is not a matter of taste. The text is the stream's bytes,
so a token that splits a character is no special case. *Word characters* are ASCII letters and digits, the underscore,
and every byte of a character beyond ASCII; ASCII digits alone make numbers.

number
    ``12``, ``3.14``, ``1,024``, ``1_000``, ``6.02e23``, ``v1.2.3``, ``10ms`` (up to three letters or %), ``0x1F``;
    seven or more hexadecimal digits with a decimal one among them (commit ids, digests). A sign is no part of it. A
    port is a number.
address
    IPv4, with or without port or prefix length. IPv6 with a decimal digit in it. MAC in its three notations.
    ``host:port`` where the host has a letter.
path
    ``/a``, ``./a``, ``../a``, ``~/a``; ``a/b/c``, ``a/b.c``, ``a/``; ``C:\a``; an address with ``://``. Not ``//a``
    and not ``</a``; not ``a/b`` alone, which prose uses for *or*.
quoted string
    1 to 256 bytes on one line between two double quotes, two backticks, two single quotes that are no apostrophes, or a
    pair of curly double quotes; the quotes belong to it. A backslash escapes nothing: quoted text inside quoted text
    is found piece by piece.
identifier
    ASCII letters, digits and underscores, not starting with a digit: with an underscore and something beside it, or of
    mixed case, which is a capital after a small letter or two capitals before one (``camelCase``, ``HTTPServer``; not
    ``Word``, not ``HTTP``). The name in ``<|name|>`` is markup and no literal.

Every kind is looked for on its own, so that an identifier inside a path counts too. Two literals are the same when
their bytes are, whatever their kinds. Every pattern takes time linear in the text: what follows a start is bounded, or
is consumed whether it turns out to be a literal or not. Comparisons store the marks: a pattern that changes is a new
version of table ``COMPARISON``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]
"""Half-open, in bytes."""

_WORD = rb"[0-9A-Za-z_\x80-\xff]"
_HOST = rb"[0-9A-Za-z_.\-\x80-\xff]"
_PLACE = rb"[0-9A-Za-z_.~+@%\-\x80-\xff]"

# The second group takes the rest of a word: a number that runs into one is none, and must not be tried again inside.
_NUMBER = re.compile(
    rb"(?<!%(w)s)(0[xX][0-9A-Fa-f]++"
    rb"|[vV]?+[0-9]++(?:[._][0-9]++|,[0-9]{3}(?![0-9]))*+(?:[eE][+-]?[0-9]++|[A-Za-z%%]{1,3}+(?!%(w)s))?+)(%(w)s*+)"
    % {b"w": _WORD}
)
_WORDS = re.compile(rb"%s++" % _WORD)
_HEX = re.compile(rb"(?=[A-Fa-f]*+[0-9])[0-9A-Fa-f]{7,}+")
_IDENTIFIER = re.compile(rb"[A-Za-z_][0-9A-Za-z_]*")
_MIXED = re.compile(rb"[a-z][A-Z]|[A-Z]{2}[a-z]")
_IPV4 = re.compile(
    rb"(?<![0-9A-Za-z_.])[0-9]{1,3}+(?:\.[0-9]{1,3}+){3}(?::[0-9]{1,5}+|/[0-9]{1,2}+)?+(?!\.?[0-9A-Za-z_])"
)
_IPV6 = re.compile(rb"(?<![0-9A-Za-z_:])[0-9A-Fa-f]{0,4}+(?::[0-9A-Fa-f]{0,4}+){2,7}+(?![0-9A-Za-z_:])")
_MAC = re.compile(
    rb"(?<![0-9A-Za-z_:.\-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}"
    rb"|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){2})(?![0-9A-Za-z_:\-])"
)
_HOST_PORT = re.compile(rb"(?<!%(h)s)(?<!:)%(h)s++:[0-9]{1,5}+(?!%(w)s)" % {b"h": _HOST, b"w": _WORD})
_URL = re.compile(rb"(?<!%s)[A-Za-z][A-Za-z0-9+.\-]{0,15}+://[^\s\"'`<>()\[\]{}|\\^]++" % _WORD)
_PATH = re.compile(rb"(?<![/0-9A-Za-z_.~+@%%\-\x80-\xff])(?:%(p)s|/)++" % {b"p": _PLACE})
_WINDOWS_PATH = re.compile(rb"(?<!%s)[A-Za-z]:\\(?:%s|\\)++" % (_WORD, _PLACE))
# A string of any length is consumed, also an empty one: else its last quote would open the next.
_QUOTED = (
    re.compile(rb'"[^"\n]*+"'),
    re.compile(rb"`[^`\n]*+`"),
    re.compile(rb"(?<!%(w)s)'[^'\n]*+'(?!%(w)s)" % {b"w": _WORD}),
    re.compile(rb"\xe2\x80\x9c(?:[^\xe2\n]|\xe2(?!\x80[\x9c\x9d]))*+\xe2\x80\x9d"),
)
_QUOTE_BYTES = (2, 2, 2, 6)
_QUOTED_BYTES = 256
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_SENTENCE_END = b".,;:!?"


def literal_marks(token_bytes: Sequence[bytes]) -> NDArray[np.bool_]:
    """Which tokens lie, with at least one byte, in a literal that occurs earlier in the stream.

    Parameters
    ----------
    token_bytes
        the bytes of the stream's n tokens, in order.

    Returns
    -------
    bool[n]. *Earlier*: the same literal, to the byte, ended before this one starts.
    """
    lengths = np.fromiter(map(len, token_bytes), dtype=np.int64, count=len(token_bytes))
    ends = np.cumsum(lengths)
    spans = repeated_spans(b"".join(token_bytes))
    edges = np.zeros(len(token_bytes) + 1, dtype=np.int64)
    if spans:
        span = np.array(spans, dtype=np.int64)
        np.add.at(edges, np.searchsorted(ends, span[:, 0], side="right"), 1)
        np.add.at(edges, np.searchsorted(ends - lengths, span[:, 1], side="left"), -1)
    return (np.cumsum(edges[:-1]) > 0) & (lengths > 0)


def repeated_spans(text: bytes) -> list[Span]:
    """Literals that occur earlier in the text, in order; they may lie in one another."""
    spans = sorted(set(literal_spans(text)))
    first_end: dict[bytes, int] = {}
    repeated = []
    for start, end in spans:
        if first_end.setdefault(text[start:end], end) <= start:
            repeated.append((start, end))
    return repeated


def literal_spans(text: bytes) -> Iterator[Span]:
    """Every literal of the text, kind by kind."""
    for found in _NUMBER.finditer(text):
        if not found[2]:
            yield found.span(1)
    for found in _WORDS.finditer(text):
        word = found[0]
        if _HEX.fullmatch(word) or (_is_name(word) and not _is_markup(text, found.span())):
            yield found.span()
    for pattern in (_IPV4, _MAC, _WINDOWS_PATH):
        yield from (found.span() for found in pattern.finditer(text))
    for pattern, quotes in zip(_QUOTED, _QUOTE_BYTES, strict=True):
        for found in pattern.finditer(text):
            if 0 < len(found[0]) - quotes <= _QUOTED_BYTES:
                yield found.span()
    yield from (found.span() for found in _IPV6.finditer(text) if _is_ipv6(found[0]))
    yield from (found.span() for found in _HOST_PORT.finditer(text) if _LETTER.search(found[0]))
    for found in _URL.finditer(text):
        yield found.start(), found.start() + len(found[0].rstrip(_SENTENCE_END))
    for found in _PATH.finditer(text):
        path = found[0].rstrip(b".")
        if _is_path(path) and not (path.startswith(b"/") and text[found.start() - 1 : found.start()] == b"<"):
            yield found.start(), found.start() + len(path)


def _is_name(word: bytes) -> bool:
    if not _IDENTIFIER.fullmatch(word):
        return False
    return (b"_" in word and bool(word.strip(b"_"))) or bool(_MIXED.search(word))


def _is_markup(text: bytes, span: Span) -> bool:
    return text[max(0, span[0] - 2) : span[0]] == b"<|" and text[span[1] : span[1] + 2] == b"|>"


def _is_ipv6(found: bytes) -> bool:
    try:
        IPv6Address(found.decode())
    except ValueError:
        return False
    return any(byte in b"0123456789" for byte in found)


def _is_path(run: bytes) -> bool:
    """Whether a run of path characters and slashes is meant as a path."""
    if run.startswith(b"//") or not run.strip(b"/.~"):
        return False
    if run.startswith((b"/", b"./", b"../", b"~/")):
        return True
    head, slash, tail = run.rpartition(b"/")
    return bool(slash) and (b"/" in head or not tail or b"." in tail)
