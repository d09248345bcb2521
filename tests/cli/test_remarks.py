"""What is said under the table: literals that were overturned, and figures that disagree on the order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from drift_runs.cli import remarks
from drift_runs.schema import AGREEMENT, LISTED


def overturn(place: int, **changes: Any) -> dict[str, Any]:
    row = {
        **dict.fromkeys(LISTED.names),
        "arm": "q4_0",
        "list": "strong_overturn",
        "place": place,
        "window": "ports",
        "position": 400 + place,
        "role": "prompt",
        "range": "",
        "outlier": False,
        "reference_top": 5432,
        "reference_text": "5432",
        "candidate_top": 5433,
        "candidate_text": "5433",
        "reference_p1": 0.981,
        "q_of_reference_top": 0.2134,
        "p_of_candidate_top": 0.0081,
        "candidate_p1": 0.6552,
        "spec": "kl.full",
        "literal": True,
        "before": "port ",
        "of": 9,
    }
    return {**row, **changes}


def listed(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LISTED)


def disagreement(left: str, right: str, concordant: int, discordant: int, **changes: Any) -> dict[str, Any]:
    pairs = concordant + discordant
    return {
        "left": left,
        "right": right,
        "outliers": "with",
        "tau": (concordant - discordant) / pairs,
        "arms": 4,
        "concordant": concordant,
        "discordant": discordant,
        "tied": 0,
        "reason": "",
        **changes,
    }


def orders(*rows: dict[str, Any]) -> str:
    return remarks.orders_line(pa.Table.from_pylist(list(rows), schema=AGREEMENT), "kl.full")


class TestLiterals:
    def test_a_line_has_both_tokens_with_both_probabilities_and_the_text(self) -> None:
        head, line = remarks.overturned_literals({"q4_0": listed(overturn(1))})
        assert head == "Strong overturns in literals, where the text holds the literal before:"
        assert line == (
            '  q4_0: "5432" (P 0.981, Q 0.213) became "5433" (P 0.0081, Q 0.655) in ports at 401, after "port "'
        )

    def test_the_first_of_every_arm_and_three_in_all(self) -> None:
        rows = {
            "q8_0": listed(overturn(1, literal=False), overturn(4)),
            "q5_0": listed(),
            "q4_0": listed(overturn(2), overturn(1), overturn(3)),
            "half": listed(overturn(1, literal=None), overturn(1, list="dnll")),
        }
        lines = remarks.overturned_literals(rows)[1:]
        assert [(line.split()[0], line.split(" at ")[1][:3]) for line in lines] == [
            ("q8_0:", "404"),
            ("q4_0:", "401"),
            ("q4_0:", "402"),
        ]

    def test_nothing_to_say(self) -> None:
        assert remarks.overturned_literals({}) == remarks.overturned_literals({"q4_0": listed()}) == []

    def test_a_long_text_is_cut_at_a_word_and_nothing_steers_the_terminal(self) -> None:
        text = "x" * 90 + " the port is\x1b[2J " + "y" * 20 + " "
        (_, line) = remarks.overturned_literals(
            {"q": listed(overturn(1, before=text, reference_text=" \u202e5", window="w"))}
        )
        assert line.endswith('after "…the port is\\x1b[2J ' + "y" * 20 + ' "')
        assert '" \\u202e5" (P' in line and line.isprintable()

    def test_every_blank_of_a_token_is_shown(self) -> None:
        row = overturn(1, reference_text="    5", candidate_text=" 5", before="a =  ")
        (_, line) = remarks.overturned_literals({"q": listed(row)})
        assert '"    5" (P' in line and 'became " 5" (P' in line and line.endswith('after "a =  "')

    def test_marks_of_direction_and_of_lines_are_shown_as_codes(self) -> None:
        row = overturn(1, reference_text="5\u200f\u061c", candidate_text="5\u2028\n", window="w")
        (_, line) = remarks.overturned_literals({"q": listed(row)})
        assert '"5\\u200f\\u061c"' in line and '"5\\u2028\\n"' in line and line.isprintable()

    def test_without_a_dictionary_ids_stand_alone(self) -> None:
        row = overturn(1, reference_text=None, candidate_text=None, before=None, q_of_reference_top=None)
        (_, line) = remarks.overturned_literals({"q": listed(row)})
        assert line == "  q: token 5432 (P 0.981, Q -) became token 5433 (P 0.0081, Q 0.655) in ports at 401"


class TestOrders:
    def test_exact_answers_come_first_and_then_the_least_agreement(self) -> None:
        line = orders(
            disagreement("flip/rate", "answer.exact/rate", 34, 2),
            disagreement("kl.full/worst_range.p95", "answer.exact/rate", 33, 3),
            disagreement("kl.full/mean", "flip/rate", 35, 1),
            disagreement("kl.full/p95", "strong_overturn/count", 30, 6),
        )
        assert line == (
            "Orders: worst range (p95) and exact answers disagree on 3 of 36 pairs of arms (tau 0.83); "
            "p95 and strong overturns disagree on 6 of 36 pairs of arms (tau 0.67)."
        )

    @pytest.mark.parametrize(
        "row",
        [
            disagreement("js.full/mean", "flip/rate", 1, 5),  # not the headline
            disagreement("flip/rate", "dentropy.full/mean", 1, 5),  # flatter is not farther
            disagreement("kl.full/mean", "flip/rate", 1, 5, outliers="without"),
            disagreement("kl.full/mean", "flip/rate", 1, 5, tau=None),
        ],
    )
    def test_what_it_does_not_speak_of(self, row: dict[str, Any]) -> None:
        assert orders(row) == "" == orders()

    def test_agreement(self) -> None:
        same = disagreement("kl.full/mean", "flip/rate", 6, 0), disagreement("flip/rate", "answer.exact/rate", 6, 0)
        assert orders(*same) == "Orders: no two of 3 figures disagree on the arms."


def test_everything_under_the_table() -> None:
    agreement = pa.Table.from_pylist([disagreement("kl.full/mean", "flip/rate", 2, 1)], schema=AGREEMENT)
    lines = remarks.lines({"q": listed(overturn(1))}, agreement, "kl.full")
    assert len(lines) == 3 and lines[-1].startswith("Orders: ")
    assert remarks.lines({}, None, "kl.full") == []
