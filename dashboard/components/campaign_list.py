"""The list from which a campaign is chosen. Where a store holds many it is searched and read page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from drift_runs.tracking.index import Index
    from drift_runs.tracking.records import CampaignRecord

AT_ONCE = 25
"""Campaigns that are offered at once."""
EVERY = ""
_KEPT = "drift.list"
_START: dict[str, str | int] = {"protocol": EVERY, "words": "", "page": 1}


def campaign_list(index: Index, chosen: CampaignRecord, widget: Mapping[str, object]) -> None:
    """Draw the list with ``chosen`` in it. ``widget``: what ties the choice to the view.

    How one looked for a campaign is the session's own and no part of a view.
    """
    total = index.total()
    if total <= AT_ONCE:
        _choice(f"Campaign ({total:,} in this store)", index.campaigns(), widget)
        return
    kept = _kept()
    protocols = index.protocols()
    if kept["protocol"] not in protocols:
        kept["protocol"] = EVERY
    counts = {
        EVERY: f"every protocol ({total:,})",
        **{name: f"{name} ({count:,})" for name, count in protocols.items()},
    }
    st.selectbox("Protocol", list(counts), format_func=counts.__getitem__, **_own("protocol"))
    st.text_input("Find a campaign", placeholder="part of a title, protocol or run id", **_own("words"))
    protocol, words = str(kept["protocol"]) or None, str(kept["words"]).strip()
    found = index.total(protocol, matching=words)
    pages = max(1, -(-found // AT_ONCE))
    kept["page"] = min(int(kept["page"]), pages)
    first = (int(kept["page"]) - 1) * AT_ONCE
    records = index.campaigns(protocol, first, AT_ONCE, matching=words)
    listed = f"{first + 1:,} to {first + len(records):,} of {found:,}" if records else "none found"
    if chosen not in records:
        records = (chosen, *records)
        listed += ", and the open one"
    _choice(f"Campaign ({listed})", records, widget)
    if pages > 1:
        st.pagination(pages, max_visible_pages=5, **_own("page"))


def campaign_labels(records: Sequence[CampaignRecord]) -> dict[str, str]:
    """What the list says of each campaign, by run id. Marks come first, because the end of a long label is cut off;
    the time of day is there only where the date does not tell two campaigns apart.
    """
    labels = {record.run_id: _label(record, "%Y-%m-%d") for record in records}
    often = Counter(labels.values())
    return {
        record.run_id: _label(record, "%Y-%m-%d %H:%M:%S")
        if often[labels[record.run_id]] > 1
        else labels[record.run_id]
        for record in records
    }


def _choice(label: str, records: Sequence[CampaignRecord], widget: Mapping[str, object]) -> None:
    labels = campaign_labels(records)
    st.selectbox(label, list(labels), format_func=labels.__getitem__, **widget)


def _label(record: CampaignRecord, form: str) -> str:
    when = datetime.fromtimestamp(record.started_ms / 1000).strftime(form)
    there = {"incomplete": not record.complete, "imported": record.imported, "draft": record.draft}
    marks = [word for word, is_so in there.items() if is_so]
    return f"{', '.join(marks)}{': ' if marks else ''}{record.protocol_name} v{record.protocol_version}, {when}"


def _kept() -> dict[str, str | int]:
    return st.session_state.setdefault(_KEPT, dict(_START))


def _own(name: str) -> dict[str, object]:
    """Ties a widget to what the session keeps, because a page switch makes a new widget that knows nothing."""
    key = f"list.{name}"
    st.session_state[key] = _kept()[name]
    return {"key": key, "on_change": _looked, "args": (name,)}


def _looked(name: str) -> None:
    kept = _kept()
    kept[name] = st.session_state[f"list.{name}"]
    if name != "page":
        kept["page"] = 1
