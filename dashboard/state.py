"""What a page shows, as one frozen value, and its one codec to and from the URL.

Everything is written to the URL, defaults included, under a version: a link opens the same view in a fresh browser,
also after a default has changed. Widgets never bind to the URL themselves; they call :func:`change`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

VERSION = "1"
ANY = "*"
"""No protocol name may hold it, so it cannot be mistaken for one."""

OUTLIERS = ("with", "without", "both")
SORTS = (
    "arm",
    "protocol",
    "flip",
    "mean",
    "p95",
    "p99",
    "worst",
    "strong",
    "exact",
    "prefix",
    "agree",
    "answers",
    "invalid",
    "passed",
)
ORDERS = ("desc", "asc")
METRICS = ("divergence.p95", "divergence.mean", "flip.rate")
LISTS = ("strong_overturn", "dnll", "kl", "support_collapse")
FACETS = ("derivative", "weights", "kv", "hardware", "engine")
GROUPS = ("none", *FACETS)
LITERALS = ("any", "yes", "no")
COLOURINGS = ("divergence", "flip")
PAIRS = ("branch", "token", "weights")
OPEN_LISTS = ("arms", "outcome", "band", "kind")
"""Lists that only their own page knows the choices of. Empty lets everything through."""

_CLOSED = {
    "outliers": OUTLIERS,
    "sort": SORTS,
    "order": ORDERS,
    "metric": METRICS,
    "listed": LISTS,
    "group": GROUPS,
    "literal": LITERALS,
    "colouring": COLOURINGS,
    "pair": PAIRS,
}
_LISTS = (*FACETS, *OPEN_LISTS)
_FORMER = {
    ("sort", "kl_mean"): "mean",
    ("sort", "kl_p95"): "p95",
    ("metric", "kl.full.p95"): "divergence.p95",
    ("metric", "kl.full.mean"): "divergence.mean",
}
"""Values of older links, from when every campaign's divergence was ``kl.full``."""
_SESSION_VIEW = "drift.view"
_SESSION_WRITTEN = "drift.written"
_SESSION_NOTES = "drift.notes"
_SESSION_CHANGED = "drift.changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state of a view. Open values (campaign, scope, arm, facets) are checked against the store by :func:`fit`."""

    campaign: str = ANY
    """Run id; ``*`` is the newest complete one."""
    outliers: str = "with"
    scope: str = "all"
    """``all`` or ``panel:NAME``."""
    sort: str = "mean"
    order: str = "desc"
    metric: str = "divergence.p95"
    arm: str = ANY
    """Arm whose ranges, measures or rows are shown; ``*`` is the first."""
    listed: str = "strong_overturn"
    """Which list of rows."""
    figure: str = ANY
    """``spec/statistic`` in which pairs of arms are set against each other; ``*`` is the first."""
    source: str = ANY
    """Published source; ``*`` is the first."""
    group: str = "none"
    """Facet by which the overview groups arms."""
    plot: str = ANY
    """``spec/statistic`` of the figure that a chart shows; ``*`` is the page's first."""
    span: str = ANY
    """Range whose text is shown; ``*`` is the first."""
    colouring: str = "divergence"
    """What colours a text's positions."""
    root: str = ANY
    """``window/position`` of the root that is shown; ``*`` is the first that passes the filters."""
    pair: str = "branch"
    """Which two futures of the root."""
    prompt: str = ANY
    """Prompt whose rollouts are shown side by side; ``*`` is the first that parts."""
    literal: str = "any"
    """Whether roots lie in a literal."""
    history: str = ANY
    """Protocol whose campaigns are set side by side over time; ``*`` is the campaign's own."""
    shown: str = "1"
    """Page of a long list, from 1."""
    arms: tuple[str, ...] = ()
    """Arms that are set side by side."""
    outcome: tuple[str, ...] = ()
    band: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    """Filters of roots."""
    derivative: tuple[str, ...] = ()
    """Facet filters: empty lets every arm through."""
    weights: tuple[str, ...] = ()
    kv: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    engine: tuple[str, ...] = ()

    @property
    def outlier_sets(self) -> tuple[str, ...]:
        return ("with", "without") if self.outliers == "both" else (self.outliers,)


class Decoded(NamedTuple):
    view: View
    notes: tuple[str, ...]
    """What in the URL was not understood, as plain text that may hold anything: escape it."""


class Choices(NamedTuple):
    """What the store offers for the open values."""

    campaigns: Sequence[str]
    scopes: Sequence[str]
    arms: Sequence[str]
    facets: Mapping[str, Sequence[str]]


def encode(view: View) -> dict[str, str | list[str]]:
    """The view as query parameters: every field, defaults too."""
    pairs: dict[str, str | list[str]] = {"v": VERSION}
    for item in fields(View):
        value = getattr(view, item.name)
        pairs[item.name] = (list(value) or ANY) if isinstance(value, tuple) else value
    return pairs


def decode(params: Mapping[str, Sequence[str]]) -> Decoded:
    """Query parameters as a view. What is not understood falls back to its default, with a note.

    ``params``: all values of each key, also where there is one.
    """
    known = [item.name for item in fields(View) if item.name in params]
    version = params.get("v", ())
    if not known and not version:
        return Decoded(View(), ())
    if list(version) != [VERSION]:
        said = f"version {_cut(version[-1])}" if version else "no version"
        note = f"This link has {said}; only version {VERSION} is understood. Showing the default view."
        return Decoded(View(), (note,))
    notes: list[str] = []
    found: dict[str, str | tuple[str, ...]] = {}
    for name in known:
        values = [value for value in params[name] if value]
        if name in _LISTS:
            found[name] = tuple(dict.fromkeys(value for value in values if value != ANY))
            continue
        value = values[-1] if values else ""
        value = _FORMER.get((name, value), value)
        if not value or (name in _CLOSED and value not in _CLOSED[name]):
            default = getattr(View(), name)
            notes.append(f"{name} = {_cut(value)} in the link is not known; showing {default}.")
            continue
        found[name] = value
    return Decoded(replace(View(), **found), tuple(notes))


def fit(view: View, choices: Choices) -> Decoded:
    """The view with every open value replaced by one that exists, and a note for each that had to be."""
    notes: list[str] = []
    changed: dict[str, str | tuple[str, ...]] = {}

    def pick(name: str, allowed: Sequence[str]) -> None:
        value = getattr(view, name)
        if value in allowed or not allowed:
            return
        changed[name] = allowed[0]
        if value != ANY:
            notes.append(f"{name} = {_cut(value)} in the link does not exist here; showing {_cut(allowed[0])}.")

    pick("campaign", choices.campaigns)
    pick("scope", choices.scopes)
    pick("arm", choices.arms)
    for name in FACETS:
        allowed = set(choices.facets.get(name, ()))
        wanted = getattr(view, name)
        kept = tuple(value for value in wanted if value in allowed)
        if kept != wanted:
            changed[name] = kept
            lost = ", ".join(_cut(value) for value in wanted if value not in allowed)
            notes.append(f"{name} = {lost} in the link does not exist here; filter dropped.")
    return Decoded(replace(view, **changed), tuple(notes))


def choose(name: str, allowed: Sequence[str]) -> tuple[str, str]:
    """The view's value of an open field that only its own page knows the choices of, and a note where it was replaced.

    ``allowed`` must not be empty. The choice is written to the URL.
    """
    import streamlit as st

    view: View = st.session_state.get(_SESSION_VIEW, View())
    value = getattr(view, name)
    if value in allowed:
        return value, ""
    settle(Decoded(replace(view, **{name: allowed[0]}), ()))
    if value == ANY:
        return allowed[0], ""
    return allowed[0], f"{name} = {_cut(value)} in the link does not exist here; showing {_cut(allowed[0])}."


def choose_some(name: str, allowed: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """As :func:`choose`, for one of ``OPEN_LISTS``: what the view has of what there is, and a note for the rest."""
    import streamlit as st

    view: View = st.session_state.get(_SESSION_VIEW, View())
    wanted = getattr(view, name)
    kept = tuple(value for value in wanted if value in allowed)
    if kept == wanted:
        return kept, ""
    settle(Decoded(replace(view, **{name: kept}), ()))
    lost = ", ".join(_cut(value) for value in wanted if value not in allowed)
    return kept, f"{name} = {lost} in the link does not exist here; filter dropped."


def _cut(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."


def current() -> View:
    """The view of this browser tab.

    It comes from the URL when the session starts and when the browser goes back; a widget's change wins over the URL,
    which lags a run behind; a page switch, which empties the URL, keeps the view.
    """
    import streamlit as st

    params = {key: st.query_params.get_all(key) for key in st.query_params}
    changed = st.session_state.pop(_SESSION_CHANGED, False)
    started = _SESSION_VIEW in st.session_state
    as_written = params == _as_lists(st.session_state.get(_SESSION_WRITTEN, {}))
    if not started or (not changed and "v" in params and not as_written):
        view, notes = decode(params)
        st.session_state[_SESSION_VIEW] = view
        st.session_state[_SESSION_NOTES] = notes
    return st.session_state[_SESSION_VIEW]


def notes() -> tuple[str, ...]:
    """What was not understood; it stays on the page until the view changes."""
    import streamlit as st

    return st.session_state.get(_SESSION_NOTES, ())


def settle(decoded: Decoded) -> View:
    """Keep a fitted view as the session's, and write it to the URL."""
    import streamlit as st

    st.session_state[_SESSION_VIEW] = decoded.view
    if decoded.notes:
        st.session_state[_SESSION_NOTES] = (*notes(), *decoded.notes)
    pairs = encode(decoded.view)
    if {key: st.query_params.get_all(key) for key in st.query_params} != _as_lists(pairs):
        st.query_params.from_dict(pairs)
    st.session_state[_SESSION_WRITTEN] = pairs
    return decoded.view


def change(**values: str | Iterable[str]) -> None:
    """Change the view from a widget's callback. Another campaign starts with its own scopes, arms and facets."""
    import streamlit as st

    view: View = st.session_state.get(_SESSION_VIEW, View())
    typed = {name: value if isinstance(value, str) else tuple(value) for name, value in values.items()}
    if typed.get("campaign", view.campaign) != view.campaign:
        fresh = dict.fromkeys(("arm", "figure", "plot", "span", "root", "prompt", "history"), ANY)
        view = replace(view, scope="all", shown="1", **fresh, **dict.fromkeys(_LISTS, ()))
    st.session_state[_SESSION_VIEW] = replace(view, **typed)
    st.session_state[_SESSION_NOTES] = ()
    st.session_state[_SESSION_CHANGED] = True


def _as_lists(pairs: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    return {key: [value] if isinstance(value, str) else list(value) for key, value in pairs.items()}
