"""What tasks and drift say together, in words that claim no more than the numbers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drift_runs.measure.resampler import plural

TITLES = {
    "flips": "flips in the answer's span",
    "strong_overturns": "strong overturns in the answer's span",
    "mean_nats": "mean divergence in the answer's span",
    "max_nats": "the largest divergence in the answer's span",
    "p95_nats": "p95 divergence of the answer's span",
    "worst_p95_nats": "p95 divergence of the window's worst range",
}
LEAST_CLUSTERS = 6
"""With fewer no choice of signs is rarer than one in twenty: 2 / 2 ** 5 is more."""
NO_CAUSE = "This is an order and no cause: a text that is hard for every arm raises both."


def order_sentence(row: Mapping[str, Any], *, unit: str, figures: int) -> str:
    """What one row of table ``TASK_ORDER`` shows and what it does not. ``figures``: how many are looked at."""
    figure = TITLES[row["figure"]]
    among = " that the reference passed" if row["among"] != "all" else ""
    if row["over"] == "arms":
        head = f"Over {plural(row['n'], 'arm')}, each on the same {plural(row['tasks'], 'task')}{among}"
    else:
        head = (
            f"Over {plural(row['n'], 'pair')} of {plural(row['tasks'], 'task')}{among} and {plural(row['arms'], 'arm')}"
        )
    head += f" ({plural(row['clusters'], unit)}; {plural(row['failed'], 'answer')} failed)"
    if row["tau"] is None:
        return f"{head}, nothing can be said of {figure} and failure: {row['reason']}."
    measured = f"Kendall's tau-b of {figure} with failure is {row['tau']:.2f}"
    if row["tau_limit"] is not None and abs(row["tau_limit"]) < 0.995:
        measured += f" (the ties allow {row['tau_limit']:.2f} at most)"
    mind = f" Mind: {row['reason']}." if row["reason"] else ""
    if row["tau_low"] is None:
        return f"{head}, {measured}, without an interval: it shows nothing beyond these answers.{mind}"
    interval = f"{row['tau_low']:.2f} to {row['tau_high']:.2f}"
    if row["clusters"] < LEAST_CLUSTERS:
        return (
            f"{head}, {measured}; inconclusive: an interval ({interval}) from fewer than {LEAST_CLUSTERS} {unit}s "
            f"shows nothing.{mind}"
        )
    if row["tau_low"] <= 0 <= row["tau_high"]:
        return (
            f"{head}, {measured}; inconclusive: the interval {interval} holds 0. Neither that the two go together nor "
            f"that they do not is shown.{mind}"
        )
    more = "more" if row["tau"] > 0 else "less"
    return (
        f"{head}, {measured}, interval {interval}: the more drift by this figure, the {more} often the task failed. "
        f"{NO_CAUSE} It is one of {figures} figures that are looked at, and its interval is not corrected for the "
        f"others.{mind}"
    )
