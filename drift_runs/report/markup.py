"""HTML that cannot be injected into: text is escaped unless it was built here.

Names, titles and notes come from files that other people wrote. Streamlit's Markdown would render them, so that a name
could show an image from elsewhere or pass for a heading. Pages and reports write such text with :func:`tag` only.
"""

from __future__ import annotations

import html
import re


class Html(str):
    """Markup that was built by :func:`tag`; any other string is text."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as text. Control and direction marks are shown as what they are, so that none can reorder a line."""
    return Html(html.escape(seen(str(value)), quote=True))


def seen(words: str) -> str:
    """Text in which control and direction marks are shown as their code; line ends and tabs are blanks."""
    return _MARKS.sub(lambda found: _visible(found[0]), words)


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element. A child that is not :class:`Html` is escaped; ``cls`` is ``class``; None and False are left out."""
    pairs = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name == "br":
        return Html("<br>")
    return Html(f"<{name}{pairs}>{join(children)}</{name}>")


def join(children: object) -> Html:
    """Several children as one; None is nothing."""
    if not isinstance(children, (list, tuple)):
        children = (children,)
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, (list, tuple)):
            parts.append(join(child))
        else:
            parts.append(text(child))
    return Html("".join(parts))


def _visible(mark: str) -> str:
    if mark in "\n\t":
        return " "
    return f"\\u{ord(mark):04x}" if _MARKS.match(mark) else mark


def visible(words: str, *, spaces: bool = False) -> str:
    """Text of a model with everything in it to be seen: line ends and tabs as signs, other controls as their code.

    ``spaces``: blanks as signs too, for a single token.
    """
    return "".join(_sign(mark, spaces) for mark in words)


def _sign(mark: str, spaces: bool) -> str:
    if mark == " " and spaces:
        return "\u2423"
    if mark in _SIGNS:
        return _SIGNS[mark]
    code = ord(mark)
    if code in _UNSEEN or 0xE0000 <= code < 0xE0080:
        return f"\\u{code:04x}"
    return _visible(mark)


_SIGNS = {"\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d"}
_UNSEEN = frozenset(
    [0xA0, 0xAD, 0x2028, 0x2029, 0x3000, 0xFEFF, 0xFFFE, *range(0x2000, 0x2010), *range(0x2060, 0x2065)]
)
"""Characters that leave no ink, or that a reader takes for an ordinary blank."""

_MARKS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
"""Controls, marks of direction, and halves of a pair: most texts have none, and a page has thousands of texts."""
