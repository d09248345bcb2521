"""A listed position as a row of a table: where, the text with both tokens, probabilities, divergence, marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.components.cells import table
from dashboard.components.markup import Html, tag, visible
from dashboard.figures import write_number
from dashboard.frame import chip


def listed_table(rows: Sequence[dict[str, Any]], caption: str, *, label: str) -> Html:
    """Rows of schema ``LISTED``; the column of texts is there where any row has one."""
    return table(caption, _head(rows), [_row(row) for row in rows], label=label)


def token_words(text: str | None, token_id: int | None) -> str:
    """A token as it reads, blanks to be seen; its id where its text is not known."""
    if text is not None:
        return visible(text, spaces=True) or "(empty)"
    return "?" if token_id is None else f"id {token_id}"


def token_lines(parts: Sequence[tuple[str, str | None, int | None]]) -> list[Html]:
    """Lines of (who, text of the token, its id)."""
    return [
        tag(
            "span",
            f"{who} ",
            tag(
                "span",
                token_words(text, token_id),
                cls="dr-token",
                title=None if token_id is None else f"id {token_id}",
            ),
            cls="dr-line dr-small",
        )
        for who, text, token_id in parts
    ]


def probability_lines(parts: Sequence[tuple[str, float | None]]) -> list[Html]:
    """Lines of (words, probability); what is not known is left out."""
    return [
        tag("span", f"{words} {value:.4f}", cls="dr-line dr-small dr-num")
        for words, value in parts
        if value is not None
    ]


def _has_text(row: dict[str, Any]) -> bool:
    return row["before"] is not None or row["after"] is not None


def _head(rows: Sequence[dict[str, Any]]) -> list[Html]:
    words = ["#", "where"]
    words += ["text: before, reference's token, candidate's token, after"] if any(map(_has_text, rows)) else []
    words += ["tokens", "probabilities", "divergence, nats", "dNLL, nats", "marks"]
    return [tag("th", word, scope="col") for word in words]


def _row(row: dict[str, Any]) -> Html:
    where = [tag("span", f"position {row['position']:,}", cls="dr-line dr-title dr-num")]
    where += [tag("span", row["range"], cls="dr-line dr-title dr-wrap")] if row["range"] else []
    where += [tag("span", row["role"], cls="dr-line dr-title")]
    where += [chip("outlier window", "outlier")] if row["outlier"] else []
    text = [tag("td", _text(row), cls="dr-text")] if _has_text(row) else []
    return tag(
        "tr",
        tag("td", row["place"], cls="dr-num"),
        tag("th", row["window"], where, scope="row"),
        text,
        tag("td", _tokens(row)),
        tag("td", _probabilities(row)),
        tag("td", _divergence(row), tag("span", row["spec"], cls="dr-line dr-spec"), cls="dr-num"),
        tag("td", _number(row["dnll_nats"]), cls="dr-num"),
        tag("td", _marks(row)),
        data_window=row["window"],
        data_position=row["position"],
    )


def _text(row: dict[str, Any]) -> list[object]:
    """The end of what came before, both tokens, and what the text went on with: all of it untrusted."""
    reference = token_words(row["reference_text"], row["reference_top"])
    candidate = token_words(row["candidate_text"], row["candidate_top"])
    return [
        visible(row["before"] or ""),
        tag("b", reference, cls="dr-within", title="reference's best token"),
        tag("b", candidate, cls="dr-above", title="candidate's best token"),
        visible(row["after"] or ""),
    ]


def _tokens(row: dict[str, Any]) -> list[Html]:
    return token_lines(
        (
            ("reference", row["reference_text"], row["reference_top"]),
            ("candidate", row["candidate_text"], row["candidate_top"]),
            ("text", row["token_text"], row["token"]),
        )
    )


def _probabilities(row: dict[str, Any]) -> list[Html]:
    return probability_lines(
        (
            ("reference's best", row["reference_p1"]),
            ("the candidate gives it", row["q_of_reference_top"]),
            ("candidate's best", row["candidate_p1"]),
            ("the reference gives it", row["p_of_candidate_top"]),
        )
    )


def _divergence(row: dict[str, Any]) -> str:
    # A list of the largest divergences has no other row without a value than one where it is infinite.
    if row["divergence_nats"] is None and row["list"] == "kl":
        return "infinite"
    return _number(row["divergence_nats"])


def _number(value: float | None) -> str:
    return "not known" if value is None else write_number(value, "nats")


def _marks(row: dict[str, Any]) -> list[Html]:
    words = (("flip", "plain"), ("confident", "above"), ("copy", "outlier"), ("literal", "warn"))
    return [chip(word, kind) for word, kind in words if row[word]]
