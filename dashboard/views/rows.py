"""Rows: the positions of one arm that a person should read, with the text around them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, state
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag, visible
from dashboard.figures import write_number
from dashboard.frame import Page, chip, control, open_page

LIST_LABELS = {
    "strong_overturn": "strong overturns",
    "dnll": "largest |dNLL|",
    "kl": "largest divergence",
    "support_collapse": "support collapse",
}
SHOWN_ROWS = 200  # more are in the CSV: a page of thousands of texts is not read


def show() -> None:
    page = open_page("Rows")
    names = [arm.arm for role in ("candidate", "follow-up", "floor", "launch") for arm in page.arms(role)]
    if not names:
        st.html(tag("p", "No arm passes the filters.", cls="dr-say"))
        return
    chosen = page.view.arm if page.view.arm in names else names[0]
    page.row.selectbox("Arm", names, width=215, **control("arm", chosen))
    page.row.segmented_control(
        "List", state.LISTS, format_func=LIST_LABELS.__getitem__, required=True, **control("listed", page.view.listed)
    )
    arm = next(arm for arm in page.campaign.arms if arm.arm == chosen and arm.complete)
    everything = data.listed(page.uri, arm.run_id, arm.complete).to_pylist()
    st.subheader(f"{LIST_LABELS[page.view.listed].capitalize()} of {chosen}", anchor=False)
    st.html(tag("p", _says(page), cls="dr-say"))
    if not everything:
        st.html(tag("p", _why_none(page), cls="dr-say"))
        return
    in_list = [row for row in everything if row["list"] == page.view.listed]
    kept = [row for row in in_list if page.sets != ("without",) or not row["outlier"]]
    if not kept:
        st.html(tag("p", _why_empty(bool(in_list)), cls="dr-say"))
        return
    shown = kept[:SHOWN_ROWS]
    st.html(table(_count(shown, kept), _head(shown), [_row(row) for row in shown], label="Rows"))
    csv_button(kept, name=f"{page.campaign.protocol_name}-{chosen}-{page.view.listed}-{page.view.outliers}", key="rows")


def _says(page: Page) -> str:
    marks, bands = page.protocol.marks, page.protocol.bands
    return {
        "strong_overturn": f"Flips where the reference gave its best token {bands.strong_from:g} or more, the surest "
        "first: the reference had no doubt, and the candidate would have gone another way.",
        "dnll": "Positions whose text became much more or less likely. Confident: either side gave the text's token "
        f"more than {marks.confident_above:g}.",
        "kl": f"Positions with the largest {page.columns.headline}.",
        "support_collapse": "Positions where both lists of best tokens share fewer than two: the divergence over "
        "shared tokens is not defined there, and left out of its means.",
    }[page.view.listed]


def _why_none(page: Page) -> str:
    if not page.has_positions:
        return "No rows: the source gives no positions."
    return "No rows were listed for this arm. A campaign of an older version has none: drift measure lists them."


def _why_empty(there: bool) -> str:
    return "Every row of this list lies in a declared outlier window." if there else "No position is in this list."


def _count(shown: list[dict[str, Any]], kept: list[dict[str, Any]]) -> str:
    of = max(row["of"] for row in kept)
    words = f"{len(kept):,} of {of:,} such positions are listed, worst first."
    return f"{words} The first {len(shown):,} are shown, the CSV has all." if len(shown) < len(kept) else words


def _has_text(row: dict[str, Any]) -> bool:
    return row["before"] is not None or row["after"] is not None


def _head(rows: list[dict[str, Any]]) -> list[Html]:
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
    return [
        visible(row["before"] or ""),
        tag("b", _token(row["reference_text"], row["reference_top"]), cls="dr-within", title="reference's best token"),
        tag("b", _token(row["candidate_text"], row["candidate_top"]), cls="dr-above", title="candidate's best token"),
        visible(row["after"] or ""),
    ]


def _token(text: str | None, token_id: int | None) -> str:
    """A token as it reads, blanks to be seen; its id where its text is not known."""
    if text is not None:
        return visible(text, spaces=True) or "(empty)"
    return "?" if token_id is None else f"id {token_id}"


def _tokens(row: dict[str, Any]) -> list[Html]:
    parts = (
        ("reference", row["reference_text"], row["reference_top"]),
        ("candidate", row["candidate_text"], row["candidate_top"]),
        ("text", row["token_text"], row["token"]),
    )
    return [
        tag(
            "span",
            f"{who} ",
            tag("span", _token(text, token_id), cls="dr-token", title=None if token_id is None else f"id {token_id}"),
            cls="dr-line dr-small",
        )
        for who, text, token_id in parts
    ]


def _probabilities(row: dict[str, Any]) -> list[Html]:
    parts = (
        ("reference's best", row["reference_p1"]),
        ("the candidate gives it", row["q_of_reference_top"]),
        ("candidate's best", row["candidate_p1"]),
        ("the reference gives it", row["p_of_candidate_top"]),
    )
    return [
        tag("span", f"{words} {value:.4f}", cls="dr-line dr-small dr-num")
        for words, value in parts
        if value is not None
    ]


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


show()
