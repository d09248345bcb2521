"""An answer that an arm lost: where it first goes wrong, with both tokens, their probabilities, and the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.components.cells import table
from dashboard.components.listed_rows import probability_lines, token_lines, token_words
from dashboard.components.markup import Html, tag, visible
from dashboard.frame import chip

BEFORE_CHARACTERS = 220
AFTER_CHARACTERS = 120
"""A long answer is cut around its mark; the CSV has all of it."""


def lost_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers of schema ``ANSWERS`` that the reference writes and the arm does not.

    Those that break a literal come first, then those that the reference was surer of.
    """
    lost = [row for row in rows if row["reference_exact"] and row["exact"] is False]
    return sorted(lost, key=lambda row: (not row["literal"], -(row["reference_p"] or 0.0)))


def lost_table(rows: Sequence[dict[str, Any]], caption: str) -> Html:
    """Lost answers as rows; the column of texts is there where any row has one."""
    texts = any(row["text"] is not None for row in rows)
    words = ["answer", "kind"]
    words += ["expected answer, the first wrong token marked: expected, arm's"] if texts else []
    words += ["first wrong token", "probabilities", "marks"]
    head = [tag("th", word, scope="col") for word in words]
    return table(caption, head, [_row(row, texts=texts) for row in rows], label="Lost answers")


def _row(row: dict[str, Any], *, texts: bool) -> Html:
    where = [tag("span", f"window {row['window']}", cls="dr-line dr-title dr-wrap")]
    where += [tag("span", row["range"], cls="dr-line dr-title dr-wrap")] if row["range"] else []
    where += [chip("outlier window", "outlier")] if row["outlier"] else []
    place = tag("span", f"position {row['first_wrong']:,}", cls="dr-line dr-small dr-num")
    at = f"{row['wrong']:,} of {row['to'] - row['from']:,} tokens differ"
    tokens = token_lines(
        (
            ("expected", row["token_text"], row["token"]),
            ("arm", row["candidate_text"], row["candidate_top"]),
        )
    )
    probabilities = probability_lines(
        (
            ("expected token, P", row["reference_p"]),
            ("expected token, Q", row["candidate_p"]),
            ("arm's token, Q", row["candidate_p1"]),
        )
    )
    literal = chip("literal", "warn", "The token lies in a literal that occurs earlier.") if row["literal"] else None
    return tag(
        "tr",
        tag("th", row["answer"], where, scope="row"),
        tag("td", row["kind"] or "none", tag("span", row["form"], cls="dr-line dr-small")),
        tag("td", _text(row), cls="dr-text") if texts else None,
        tag("td", tokens, place, tag("span", at, cls="dr-line dr-small dr-num")),
        tag("td", probabilities),
        tag("td", literal),
        data_answer=row["answer"],
        data_window=row["window"],
    )


def _text(row: dict[str, Any]) -> list[object]:
    """The expected answer with the first wrong token marked, and the arm's own beside it: all of it untrusted."""
    text, start, end = row["text"], row["wrong_from"], row["wrong_to"]
    if text is None:
        return ["not known"]
    if start is None or end is None:
        return [visible(_cut(text, "end", BEFORE_CHARACTERS + AFTER_CHARACTERS))]
    mine = token_words(row["candidate_text"], row["candidate_top"])
    return [
        visible(_cut(text[:start], "start", BEFORE_CHARACTERS)),
        tag("b", visible(text[start:end], spaces=True) or "(empty)", cls="dr-within", title="the expected token"),
        tag("b", mine, cls="dr-above", title="the arm's best token"),
        visible(_cut(text[end:], "end", AFTER_CHARACTERS)),
    ]


def _cut(text: str, side: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    return f"… {text[-characters:]}" if side == "start" else f"{text[:characters]} …"
