"""The figure that a page maps or draws by place: the campaign's divergence or its flips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard import state
from dashboard.frame import control

if TYPE_CHECKING:
    from dashboard.frame import Page


def metric_control(page: Page) -> None:
    """Which of ``state.METRICS`` is shown."""
    page.row.segmented_control(
        "Figure",
        state.METRICS,
        format_func=metric_labels(page).__getitem__,
        required=True,
        **control("metric", page.view.metric),
    )


def metric_labels(page: Page) -> dict[str, str]:
    """What each of ``state.METRICS`` is called: the campaign's divergence by its spec id."""
    headline = page.columns.headline
    return {"divergence.p95": f"{headline} p95", "divergence.mean": f"{headline} mean", "flip.rate": "flip rate"}


def metric_label(page: Page) -> str:
    """The one that the view asks for."""
    return metric_labels(page)[page.view.metric]
