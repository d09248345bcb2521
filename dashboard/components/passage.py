"""A stretch of text, token by token, coloured by how far an arm drifts there; what is known of a token on pointing at
it or reaching it with Tab.

The text is a model's or a transcript's: everything in it is escaped, and every mark in it is made visible.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dashboard.components.markup import Html, tag, text, visible
from dashboard.figures import write_number
from drift_runs.charts import palette

if TYPE_CHECKING:
    from drift_runs.measure.text import TokenText

LEVELS = (1e-3, 1e-2, 1e-1, 1.0)
"""Least divergence, in nats, of each shade after the first; the same for every arm and range, so that two compare."""

SHEET = f"""
.dr-passage {{ position: relative; padding-top: 7.4rem; max-width: 62rem; }}
.dr-hint {{ position: absolute; top: 0; left: 0; right: 0; height: 6.6rem; box-sizing: border-box; padding: .5rem .8rem;
  font-size: .82rem; border-left: 3px solid {palette.NEUTRAL}; opacity: .75;
  background: color-mix(in srgb, currentColor 5%, transparent); }}
.dr-tokens {{ max-height: 30rem; overflow-y: auto; font-family: monospace; font-size: .9rem; line-height: 1.75;
  overflow-wrap: anywhere; white-space: pre-wrap; padding: .3rem .2rem; }}
.dr-tok {{ border-radius: .15rem; cursor: help;
  background: color-mix(in srgb, var(--dr-hue) var(--dr-deep), transparent); }}
.dr-tok:hover, .dr-tok:focus {{ outline: 2px solid currentColor; outline-offset: 1px; }}
.dr-passage .dr-tok:hover::after, .dr-passage .dr-tok:focus::after {{ content: attr(aria-label); position: absolute;
  z-index: 2; top: 0; left: 0; right: 0; height: 6.6rem; box-sizing: border-box; overflow: hidden; padding: .5rem .8rem;
  white-space: normal; font-size: .8rem; line-height: 1.5; border-left: 3px solid var(--dr-hue);
  background: color-mix(in srgb, currentColor 5%, transparent); }}
.dr-passage:has(.dr-tok:hover) .dr-tok:focus:not(:hover)::after {{ display: none; }}
.dr-passage:has(.dr-tok:hover) .dr-hint, .dr-passage:has(.dr-tok:focus) .dr-hint {{ visibility: hidden; }}
.dr-l0 {{ --dr-hue: {palette.ABOVE}; --dr-deep: 0%; }}
.dr-l1 {{ --dr-hue: {palette.ABOVE}; --dr-deep: 14%; }}
.dr-l2 {{ --dr-hue: {palette.ABOVE}; --dr-deep: 30%; }}
.dr-l3 {{ --dr-hue: {palette.ABOVE}; --dr-deep: 52%; }}
.dr-l4 {{ --dr-hue: {palette.ABOVE}; --dr-deep: 78%; }}
.dr-none {{ --dr-hue: {palette.NEUTRAL}; --dr-deep: 25%; border-bottom: 2px dotted {palette.NEUTRAL}; }}
.dr-flip {{ border-bottom: 2px solid {palette.WITH_OUTLIERS}; }}
.dr-strict {{ border-bottom: 3px double {palette.WITH_OUTLIERS}; }}
.dr-flip-on {{ --dr-hue: {palette.WITH_OUTLIERS}; --dr-deep: 45%; }}
.dr-gap {{ opacity: .6; }}
.dr-key .dr-tok {{ padding: 0 .3rem; margin-right: .3rem; }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One scored position of the text."""

    position: int
    token: int | None
    text: str
    """The token on its own, everything visible."""
    run: str
    """The characters that end with this token, raw: a character that tokens split between them stands at the last."""
    nats: float | None
    infinite: bool
    flip: bool | None
    strict: bool | None
    reference_text: str
    candidate_text: str
    p: float | None
    """P of the text's token: exp of minus its NLL."""
    q: float | None
    reference_p1: float | None
    candidate_p1: float | None
    q_of_reference_top: float | None
    p_of_candidate_top: float | None

    @property
    def level(self) -> int | None:
        """The shade, 0 to 4; None where the divergence is not known."""
        if self.infinite:
            return len(LEVELS)
        if self.nats is None:
            return None
        return sum(self.nats >= least for least in LEVELS)


def marks_of(rows: Sequence[dict[str, Any]], column: str, tokens: TokenText | None) -> list[Mark]:
    """Rows of schema ``COMPARISON``, by position, as marks; ``column``: the divergence that is shown."""
    from drift_runs.schema import RowFlag

    def read(token: int | None) -> str:
        if token is None:
            return "?"
        return f"[{token}]" if tokens is None else tokens.text(token)

    runs = _runs(rows, tokens)
    marks = []
    for row, run in zip(rows, runs, strict=True):
        nats = row[column]
        known = nats is not None and math.isfinite(nats)
        marks.append(
            Mark(
                position=row["position"],
                token=row["token"],
                text=read(row["token"]),
                run=read(row["token"]) if run is None else run,
                nats=nats if known else None,
                infinite=not known and bool(row["flags"] & RowFlag.INFINITE_KL),
                flip=row["flip"],
                strict=row["flip_strict"],
                reference_text=read(row["reference_top"]),
                candidate_text=read(row["candidate_top"]),
                p=_probability(row["reference_nll_nats"]),
                q=_probability(row["candidate_nll_nats"]),
                reference_p1=row["reference_p1"],
                candidate_p1=row["candidate_p1"],
                q_of_reference_top=row["q_of_reference_top"],
                p_of_candidate_top=row["p_of_candidate_top"],
            )
        )
    return marks


def _runs(rows: Sequence[dict[str, Any]], tokens: TokenText | None) -> list[str | None]:
    """The characters that each token completes; None where its bytes are not known."""
    found: list[str | None] = []
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    before = None
    for at, row in enumerate(rows):
        token = row["token"]
        if tokens is None or token is None or not 0 <= token < len(tokens.tokens):
            decoder.reset()
            before = None
            found.append(None)
            continue
        if before is not None and row["position"] != before + 1:
            decoder.reset()
        before = row["position"]
        goes_on = at + 1 < len(rows) and rows[at + 1]["position"] == before + 1
        found.append(decoder.decode(tokens.tokens[token], final=not goes_on))
    return found


def _probability(nll_nats: float | None) -> float | None:
    return None if nll_nats is None or not math.isfinite(nll_nats) else math.exp(-nll_nats)


def passage(marks: Sequence[Mark], *, spec: str, colouring: str) -> Html:
    """The text of the marks. ``colouring``: ``divergence`` or ``flip``. Positions that are not scored show as a gap."""
    pieces: list[Html] = []
    before = None
    for mark in marks:
        if before is not None and mark.position != before + 1:
            pieces.append(tag("span", f" [{mark.position - before - 1:,} not scored] ", cls="dr-gap"))
        before = mark.position
        pieces.append(_token(mark, spec, colouring))
    hint = tag("div", "Point at a token, or reach it with Tab, to read what both sides gave there.", cls="dr-hint")
    box = tag("div", pieces, cls="dr-tokens", dir="ltr", role="group", aria_label="Text of the range, token by token")
    return tag("div", hint, box, cls="dr-passage")


def _token(mark: Mark, spec: str, colouring: str) -> Html:
    kinds = ["dr-tok"]
    if colouring == "flip":
        kinds.append("dr-none" if mark.flip is None else "dr-flip-on" if mark.flip else "dr-l0")
        if mark.strict:
            kinds.append("dr-strict")
    else:
        kinds.append("dr-none" if mark.level is None else f"dr-l{mark.level}")
        if mark.flip:
            kinds.append("dr-flip")
    return tag(
        "span",
        _lines(mark.run),
        cls=" ".join(kinds),
        tabindex="0",
        role="note",
        aria_label=words(mark, spec),
        data_position=mark.position,
        data_flip={True: "yes", False: "no", None: "unknown"}[mark.flip],
    )


def _lines(run: str) -> list[Html]:
    """Characters as they are shown; a line end as a sign that ends the line too; nothing as a dot."""
    if not run:
        return [tag("span", "\u00b7", cls="dr-gap")]
    pieces: list[Html] = []
    for at, part in enumerate(run.split("\n")):
        pieces += [tag("span", "\u21b5", cls="dr-gap"), tag("br")] if at else []
        # How a byte that is no UTF-8 was decoded: it is shown as the byte.
        bytes_ = "".join(f"\\x{ord(mark) - 0xDC00:02x}" if 0xDC80 <= ord(mark) <= 0xDCFF else mark for mark in part)
        pieces.append(text(visible(bytes_)))
    return pieces


def words(mark: Mark, spec: str) -> str:
    """What is known of a position, a line each; line ends are kept by a sign that no text can hold."""
    value = "infinite" if mark.infinite else "not measured"
    if mark.nats is not None:
        value = f"{write_number(mark.nats, 'nats')} nats"
    flip = {True: "flip", False: "no flip", None: "flip not known"}[mark.flip]
    if mark.strict:
        flip = "strict flip"
    return " \u2502 ".join(
        (
            f"position {mark.position:,}",
            f"{spec} {value}",
            flip,
            f"text {_shown(mark.text)}: P {_p(mark.p)}, Q {_p(mark.q)}",
            _best("reference", mark.reference_text, mark.reference_p1, mark.q_of_reference_top),
            _best("candidate", mark.candidate_text, mark.p_of_candidate_top, mark.candidate_p1),
        )
    )


def _best(whose: str, token: str, p: float | None, q: float | None) -> str:
    return f"{whose}'s best {_shown(token)}: P {_p(p)}, Q {_p(q)}"


def _shown(words: str) -> str:
    return visible(words, spaces=True) or "(empty)"


def _p(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4f}"


def legend(colouring: str) -> Html:
    """What the colours of a passage mean."""
    if colouring == "flip":
        parts = [
            tag("span", " flip ", cls="dr-tok dr-flip-on"),
            " the candidate's best token is another; ",
            tag("span", " strict ", cls="dr-tok dr-flip-on dr-strict"),
            " not by a tie; ",
        ]
    else:
        edges = ["under 0.001", "0.001", "0.01", "0.1", "1 nat or more"]
        parts = [
            item for at, edge in enumerate(edges) for item in (tag("span", f" {edge} ", cls=f"dr-tok dr-l{at}"), " ")
        ]
        parts += [tag("span", " underlined ", cls="dr-tok dr-l0 dr-flip"), " a flip; "]
    return tag("p", *parts, tag("span", " dotted ", cls="dr-tok dr-none"), " not known.", cls="dr-key")
