"""Cached reads of a tracking store. Pages read it through here, and write nothing but the index beside it.

A cache is shared by all sessions, so a key names the store and the run, and whether the run was complete; nothing that
a user chose is in it. Arrow tables and frozen records cannot be changed by a page, and Streamlit hands out copies.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.protocol.model import Protocol
from drift_runs.tracking.uris import resolve_uri, sqlite_path

if TYPE_CHECKING:
    from drift_runs.protocol.generation import Prompts
    from drift_runs.protocol.published import PublishedSource
    from drift_runs.tracking.decisions import History
    from drift_runs.tracking.facts import RunFacts
    from drift_runs.tracking.index import Index
    from drift_runs.tracking.records import CampaignRecord

ENV_STORE = "DRIFT_STORE"
ENV_TRACKING_URI = "DRIFT_TRACKING_URI"
DEFAULT_STORE = "drift-store"
_LOOK_LOCAL_S = 1.0
_LOOK_ELSEWHERE_S = 5.0
"""How old the list of campaigns may be: whether a local store has changed is known at once."""


def store_uri() -> str:
    """Address of the store that this process shows. Raises ``StoreError`` for one that cannot serve."""
    return resolve_uri(os.environ.get(ENV_TRACKING_URI) or None, Path(os.environ.get(ENV_STORE) or DEFAULT_STORE))


def store_exists(uri: str) -> bool:
    """False for a database file that is not there yet: looking must not create it."""
    path = sqlite_path(uri) if uri.startswith("sqlite:") else None
    return path is None or path.is_file()


def index(uri: str) -> Index:
    """The store's index, as of at most some seconds ago: a running campaign changes."""
    found = _opened(uri)
    now_s = time.monotonic()
    if now_s - found.looked_s >= (_LOOK_LOCAL_S if uri.startswith("sqlite:") else _LOOK_ELSEWHERE_S):
        found.index.refresh()
        found.looked_s = now_s
    return found.index


def campaigns(uri: str) -> tuple[CampaignRecord, ...]:
    """All campaigns of the store, newest first. A page that shows some of them asks :func:`index` for these."""
    return index(uri).campaigns()


@dataclass(slots=True)
class _Opened:
    index: Index
    looked_s: float


@st.cache_resource(show_spinner="Reading the list of campaigns …", max_entries=20)
def _opened(uri: str) -> _Opened:
    from drift_runs.tracking.index import open_index

    found = open_index(uri)
    found.refresh()
    return _Opened(found, time.monotonic())


@st.cache_data(show_spinner="Reading figures …", max_entries=400)
def figures(uri: str, run_id: str, complete: bool) -> pa.Table:
    """Figures of one arm's run. ``complete`` is part of the key: what was read before the end is read again after."""
    from drift_runs.tracking.reader import load_figures

    return load_figures(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=400)
def determinism(uri: str, run_id: str, complete: bool) -> pa.Table:
    """Row identity of one arm's run, window by window; empty when it recorded none."""
    from drift_runs.tracking.reader import load_determinism

    try:
        return load_determinism(uri, run_id)
    except StoreError:
        return schema.DETERMINISM.empty_table()


@st.cache_data(show_spinner=False, max_entries=400)
def listed(uri: str, run_id: str, complete: bool) -> pa.Table:
    """The rows of one arm that a person should read (schema ``LISTED``); empty when it recorded none."""
    from drift_runs.tracking.reader import load_listed

    return load_listed(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=400)
def answers(uri: str, run_id: str, complete: bool) -> pa.Table:
    """The protocol's expected answers as one arm would write them (schema ``ANSWERS``); empty when it recorded none."""
    from drift_runs.tracking.reader import load_answers

    return load_answers(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=100)
def pairs(uri: str, run_id: str, arms: tuple[str, ...]) -> pa.Table:
    """A campaign's candidates against each other (schema ``PAIRS``); empty when there is none.

    ``arms``: run ids of its complete arms, because the table is written again when an arm joins.
    """
    from drift_runs.tracking.reader import load_pairs

    return load_pairs(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=100)
def agreement(uri: str, run_id: str, arms: tuple[str, ...]) -> pa.Table:
    """Whether a campaign's figures order its arms alike (schema ``AGREEMENT``); ``arms`` as for :func:`pairs`."""
    from drift_runs.tracking.reader import load_agreement

    return load_agreement(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=100)
def proposals(uri: str, run_id: str, arms: tuple[str, ...]) -> pa.Table:
    """Windows that a rule would report separately (schema ``PROPOSALS``); ``arms`` as for :func:`pairs`."""
    from drift_runs.tracking.reader import load_proposals

    return load_proposals(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=1)
def published() -> tuple[PublishedSource, ...]:
    """Results that other people published, from the files that come with the project."""
    from drift_runs.protocol.published import load_published

    return load_published()


@st.cache_data(show_spinner=False, max_entries=100)
def protocol(uri: str, run_id: str, complete: bool) -> Protocol:
    """The protocol that a campaign ran, from the canonical JSON that it stored."""
    from drift_runs.tracking.reader import load_protocol_json

    return Protocol.model_validate_json(load_protocol_json(uri, run_id))


@st.cache_data(ttl=5, show_spinner=False, max_entries=50)
def decisions(uri: str, run_id: str, arms: tuple[str, ...], _campaign: CampaignRecord) -> History:
    """What was decided about a campaign's arms. Kept for 5 s, because other people decide too."""
    from drift_runs.tracking.decisions import load_decisions

    return load_decisions(uri, _campaign)


@st.cache_data(ttl=60, show_spinner="Reading figures of generation …", max_entries=400)
def generation_figures(uri: str, run_id: str, complete: bool) -> pa.Table:
    """Figures of one run's free generation (schema ``FIGURES``); empty when it has none.

    Kept for 60 s as all of generation is: a later run without bounds writes it again in a run that was complete.
    """
    from drift_runs.tracking.reader import load_generation_figures

    return load_generation_figures(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=100)
def rollouts(uri: str, run_id: str, complete: bool) -> pa.Table:
    """One run's own greedy rollouts (schema ``ROLLOUTS``), the reference's under the campaign's run id."""
    from drift_runs.tracking.reader import load_rollouts

    return load_rollouts(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=100)
def tasks(uri: str, run_id: str, complete: bool) -> pa.Table:
    """One run's own answers to the tasks (schema ``TASKS``), the reference's under the campaign's run id."""
    from drift_runs.tracking.reader import load_tasks

    return load_tasks(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=50)
def task_drift(uri: str, run_id: str, arms: tuple[str, ...]) -> pa.Table:
    """Drift beside pass or fail of a campaign (schema ``TASK_DRIFT``); ``arms`` as for :func:`pairs`."""
    from drift_runs.tracking.reader import load_task_drift

    return load_task_drift(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=50)
def task_order(uri: str, run_id: str, arms: tuple[str, ...]) -> pa.Table:
    """Whether what drifts more fails more (schema ``TASK_ORDER``); ``arms`` as for :func:`pairs`."""
    from drift_runs.tracking.reader import load_task_order

    return load_task_order(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=400)
def bounds(uri: str, run_id: str, complete: bool) -> tuple[str, ...]:
    """What a run's generation was bounded to below its protocol; empty when nothing was."""
    from drift_runs.tracking.reader import load_bounds

    return load_bounds(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=100)
def sampled(uri: str, run_id: str, complete: bool, temperature: str) -> pa.Table:
    """One run's own draws at a temperature (schema ``ROLLOUTS``); empty when it has none."""
    from drift_runs.tracking.reader import load_sampled

    return load_sampled(uri, run_id, temperature)


@st.cache_data(ttl=60, show_spinner=False, max_entries=20)
def prompts(uri: str, run_id: str, complete: bool) -> Prompts | None:
    """The panel of prompts that a campaign rolled out; None when it stored none."""
    from drift_runs.tracking.reader import load_prompts

    return load_prompts(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=400)
def distribution(uri: str, run_id: str, complete: bool) -> pa.Table:
    """How often one arm's divergence has which size (schema ``DISTRIBUTION``); empty when it recorded none.

    Kept for a minute, because it may be added to a campaign that is complete.
    """
    from drift_runs.tracking.reader import load_distribution

    return load_distribution(uri, run_id)


@st.cache_data(show_spinner="Reading the positions of a window …", max_entries=40)
def window_rows(uri: str, run_id: str, window: str, complete: bool) -> pa.Table:
    """The positions of one window of one arm (schema ``COMPARISON``); ``StoreError`` where they were not kept."""
    from drift_runs.tracking.reader import load_rows

    return load_rows(uri, run_id, window)


@st.cache_data(show_spinner=False, max_entries=20)
def dictionary(uri: str, run_id: str, complete: bool) -> pa.Table:
    """The bytes of each token of a campaign (schema ``DICTIONARY``); empty when it stored none."""
    from drift_runs.tracking.reader import load_dictionary

    return load_dictionary(uri, run_id)


@st.cache_data(ttl=60, show_spinner="Reading what became of the roots …", max_entries=100)
def outcomes(uri: str, run_id: str, complete: bool) -> pa.Table:
    """What became of each explored root of one arm and of its constrained decodes (schema ``OUTCOMES``)."""
    from drift_runs.tracking.reader import load_outcomes

    return load_outcomes(uri, run_id)


@st.cache_data(ttl=60, show_spinner=False, max_entries=100)
def roots(uri: str, run_id: str, complete: bool) -> pa.Table:
    """The roots that one arm explored (schema ``ROOTS``); empty when it followed none."""
    from drift_runs.tracking.reader import load_roots

    return load_roots(uri, run_id)


@st.cache_data(ttl=60, show_spinner="Reading futures …", max_entries=40)
def futures(uri: str, run_id: str, complete: bool) -> pa.Table:
    """One run's own futures (schema ``FUTURES``), the reference's under the campaign's run id."""
    from drift_runs.tracking.reader import load_futures

    return load_futures(uri, run_id)


@st.cache_data(ttl=60, show_spinner="Reading futures …", max_entries=40)
def constrained(uri: str, run_id: str, complete: bool, name: str) -> pa.Table:
    """The futures of a constrained decode of one arm (schema ``FUTURES``), one a root; empty when none is stored."""
    from drift_runs.tracking.reader import load_constrained

    return load_constrained(uri, run_id, name)


@st.cache_data(ttl=60, show_spinner=False, max_entries=10)
def streams(uri: str, run_id: str, complete: bool) -> pa.Table:
    """The token ids of a campaign's windows (schema ``STREAMS``); empty when it stored none.

    Kept for a minute: a campaign of an older version gets them when an arm joins it.
    """
    from drift_runs.tracking.reader import load_streams

    return load_streams(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=50)
def protocol_text(uri: str, run_id: str, complete: bool) -> str:
    """The protocol's file as a campaign stored it."""
    from drift_runs.tracking.reader import load_protocol_text

    return load_protocol_text(uri, run_id)


@st.cache_data(show_spinner=False, max_entries=50)
def lock_text(uri: str, run_id: str, complete: bool) -> str | None:
    """A campaign's lock; None for a draft, which has none."""
    from drift_runs.tracking.reader import load_lock_text

    try:
        return load_lock_text(uri, run_id)
    except StoreError:
        return None


@st.cache_data(ttl=60, show_spinner=False, max_entries=50)
def facts(uri: str, run_id: str, arms: tuple[str, ...], _campaign: CampaignRecord) -> RunFacts:
    """Digests and machine of a campaign's runs; ``arms`` as for :func:`pairs`."""
    from drift_runs.tracking.facts import load_facts

    return load_facts(uri, _campaign)


@st.cache_data(ttl=60, show_spinner="Pairing tasks …", max_entries=200)
def task_pair(uri: str, left: str, right: str, campaign: str, complete: bool) -> pa.Table:
    """Figures ``task.passed`` of one run with another in the place of the reference (schema ``FIGURES``)."""
    from drift_runs.generate.task_figures import task_figures
    from drift_runs.measure.figures import figures_table

    return figures_table(
        task_figures(
            tasks(uri, left, complete), protocol(uri, campaign, complete), reference=tasks(uri, right, complete)
        )
    )
