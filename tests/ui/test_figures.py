from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.components.export import to_csv
from dashboard.components.markup import Html, tag, text, visible
from dashboard.figures import Book, Columns, differs_by_outliers, headline_of, write_number
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.protocol.model import Protocol
from tests.ui.synthetic import protocol_content


@pytest.mark.parametrize(
    ("value", "unit", "low", "high", "expected"),
    [
        (0.123456, "nats", 0.10, 0.15, "0.123"),
        (0.123456, "nats", 0.122, 0.125, "0.1235"),
        (0.123456, "nats", None, None, "0.123"),
        (0.46318, "nats", 0.29, 0.91, "0.46"),
        (2.13e-7, "nats", 1e-7, 3e-7, "2.1e-7"),
        (-4e-6, "nats", None, None, "0"),
        (-0.02, "nats", None, None, "-0.0200"),
        (0.0, "nats", 0.0, 0.0, "0"),
        (0.01337, "share", 0.011, 0.016, "1.34 %"),
        (0.0, "share", None, None, "0 %"),
        (1.0, "share", 1.0, 1.0, "100 %"),
        (1204.0, "count", None, None, "1,204"),
    ],
)
def test_a_number_is_rounded_to_its_interval(value: float, unit: str, low: object, high: object, expected: str) -> None:
    assert write_number(value, unit, low=low, high=high) == expected


@given(
    st.floats(1e-12, 1e3),
    st.floats(0, 1, exclude_min=True),
    st.sampled_from(["nats", "share"]),
)
def test_what_is_written_is_near_what_is_stored(value: float, width: float, unit: str) -> None:
    shown = write_number(value, unit, low=value * (1 - width / 2), high=value * (1 + width / 2), bare=True)
    read = float(shown.replace(",", "")) / (100 if unit == "share" else 1)
    assert read == pytest.approx(value, rel=0.06)


@given(st.text())
def test_text_cannot_become_markup(words: str) -> None:
    built = tag("td", words, title=words)
    assert built.count("<") == 2 and built.count(">") == 2
    assert built.count('"') == 2


def test_markup_that_was_built_is_not_escaped_twice() -> None:
    assert tag("p", tag("b", "a & b"), " < c") == "<p><b>a &amp; b</b> &lt; c</p>"
    assert isinstance(text("x"), Html)


def test_marks_that_would_reorder_a_line_are_shown_as_what_they_are() -> None:
    assert text("a\u202eb\x1b[31m") == "a\\u202eb\\u001b[31m"


def test_what_leaves_no_ink_is_shown_as_a_sign_or_a_code() -> None:
    assert visible("a b\n\tc") == "a b\u21b5\u21e5c"
    assert visible(" the", spaces=True) == "\u2423the"
    assert visible("x\u200b\u00a0\ufeff\u202e\x1b[0m") == "x\\u200b\\u00a0\\ufeff\\u202e\\u001b[0m"


@given(st.text())
def test_visible_text_has_no_character_that_steers_a_line(words: str) -> None:
    shown = visible(words, spaces=True)
    assert not any(ord(mark) < 0x20 for mark in shown)
    assert not set(shown) & set("\x1b\n\r\t \u200b\u200d\u200e\u200f\u202e\u2066\ufeff")


def test_the_headline_is_the_protocol_s_divergence_with_the_k_of_the_rows() -> None:
    content = protocol_content()
    full = Protocol.model_validate(content)
    assert headline_of(full, Book([])) == "kl.full"
    content["capture"] = {"divergence": "kl.topk-shared", "top_k": 20, "full_vocabulary": "no"}
    best = Protocol.model_validate(content)
    assert headline_of(best, Book([])) == "kl.topk-shared@20"
    row = Figure(
        arm="a",
        scope_kind="all",
        scope="all",
        outliers="with",
        spec="kl.topk-shared@5",
        statistic="mean",
        value=0.1,
        n=9,
    )
    assert headline_of(best, Book([figures_table([row])])) == "kl.topk-shared@5"
    columns = Columns(headline="js.full")
    assert (columns.mean.header, columns.mean.spec, columns.p95.label) == (
        "JS mean, nats",
        "js.full",
        "JS p95, nats (js.full)",
    )


def test_a_csv_keeps_every_digit_and_no_formula() -> None:
    rows = [{"arm": "=1+1", "value": -0.1234567890123456, "low": None}]
    assert to_csv(rows) == "arm,value,low\n'=1+1,-0.1234567890123456,\n"
    assert to_csv([]) == ""


def test_a_worst_range_of_an_outlier_is_seen_though_the_other_has_as_many_positions() -> None:
    def worst(named: str, n: int = 225) -> Figure:
        return Figure(
            arm="q4_0",
            scope_kind="all",
            scope="all",
            outliers="with",
            spec="kl.full",
            statistic="worst_range.p95",
            value=0.5,
            n=n,
            named=named,
        )

    assert differs_by_outliers(worst("japanese"), worst("prose"))
    assert differs_by_outliers(worst("", 300), worst("", 225))
    assert not differs_by_outliers(worst("prose"), worst("prose"))
    assert not differs_by_outliers(worst("prose"), None)
