"""What stands under the table of arms: copies that went wrong, and figures that order the arms differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from drift_runs.errors import one_line, uncontrolled

LITERALS_SHOWN = 3
BEFORE_CHARACTERS = 48
_NAMES = {
    "flip/rate": "flip rate",
    "strong_overturn/count": "strong overturns",
    "answer.exact/rate": "exact answers",
}
"""What the line on orders speaks of, beside the headline's mean, p95 and worst range."""


def lines(listed: Mapping[str, pa.Table], agreement: pa.Table | None, divergence: str) -> list[str]:
    """Everything under the table; ``agreement`` is None where the arms were not set against each other."""
    orders = "" if agreement is None else orders_line(agreement, divergence)
    return [*overturned_literals(listed), *filter(None, [orders])]


def overturned_literals(listed: Mapping[str, pa.Table]) -> list[str]:
    """Lines on strong overturns inside literals that the text holds before; none where there is none.

    ``listed``: arm -> table ``LISTED``. The reference's surest one of each arm comes first, then the second ones.
    """
    by_arm = []
    for arm, table in listed.items():
        rows = [row for row in table.to_pylist() if row["list"] == "strong_overturn" and row["literal"]]
        by_arm.append([(arm, row) for row in sorted(rows, key=lambda row: row["place"])])
    in_turn = [found for round_ in zip_longest(*by_arm) for found in round_ if found is not None]
    if not in_turn:
        return []
    return [
        "Strong overturns in literals, where the text holds the literal before:",
        *(f"  {arm}: {_overturn(row)}" for arm, row in in_turn[:LITERALS_SHOWN]),
    ]


def _overturn(row: Mapping[str, Any]) -> str:
    before = ""
    if row["before"]:
        end = row["before"][-BEFORE_CHARACTERS:]
        if len(row["before"]) > BEFORE_CHARACTERS:
            end = "…" + (end.partition(" ")[2] or end)
        before = f', after "{uncontrolled(end)}"'
    return (
        f"{_token(row, 'reference')} (P {_share(row['reference_p1'])}, Q {_share(row['q_of_reference_top'])}) became "
        f"{_token(row, 'candidate')} (P {_share(row['p_of_candidate_top'])}, Q {_share(row['candidate_p1'])}) "
        f"in {one_line(row['window'])} at {row['position']}{before}"
    )


def _token(row: Mapping[str, Any], side: str) -> str:
    text = row[f"{side}_text"]
    return f"token {row[f'{side}_top']}" if text is None else f'"{uncontrolled(text)}"'


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def orders_line(agreement: pa.Table, divergence: str) -> str:
    """Which figures disagree most on the order of the arms; empty where fewer than two figures order them.

    ``agreement``: table ``AGREEMENT``; ``divergence``: base of the protocol's headline. Exact answers come first: they
    are what the other figures are a stand-in for.
    """
    rows = [
        (left, right, row)
        for row in agreement.to_pylist()
        if row["outliers"] == "with" and row["tau"] is not None
        if (left := _name(row["left"], divergence)) and (right := _name(row["right"], divergence))
    ]
    if not rows:
        return ""
    apart = sorted((found for found in rows if found[2]["discordant"]), key=lambda found: found[2]["tau"])
    if not apart:
        return f"Orders: no two of {len({name for found in rows for name in found[:2]})} figures disagree on the arms."
    with_answers = [found for found in apart if _NAMES["answer.exact/rate"] in found[:2]]
    others = [found for found in apart if found not in with_answers]
    return f"Orders: {'; '.join(_disagreements([*with_answers[:1], *others[:1]]))}."


def _disagreements(rows: list[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    for left, right, row in rows:
        pairs = row["concordant"] + row["discordant"] + row["tied"]
        yield f"{left} and {right} disagree on {row['discordant']} of {pairs} pairs of arms (tau {row['tau']:.2f})"


def _name(figure: str, divergence: str) -> str:
    """What a figure of the agreement is called here; empty for one that this line does not speak of."""
    spec, _, statistic = figure.rpartition("/")
    if spec.partition("@")[0] == divergence:
        return {"mean": f"{spec} mean", "p95": "p95", "worst_range.p95": "worst range (p95)"}.get(statistic, "")
    return _NAMES.get(figure, "")
