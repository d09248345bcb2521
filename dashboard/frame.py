"""What every page shares: campaign, header, outlier switch, notes, and what to say when nothing is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import streamlit as st

from dashboard import data, state
from dashboard.components import style
from dashboard.components.campaign_list import campaign_list
from dashboard.components.markup import Html, tag
from dashboard.components.report_button import report_button
from dashboard.figures import Book, Column, Columns, columns_of, differs_by_outliers
from drift_runs.charts import palette
from drift_runs.errors import DriftError
from drift_runs.report.hardware import hardware_words
from drift_runs.report.identity import taken_elsewhere
from drift_runs.report.ranking import Ranking, ranking_of

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from drift_runs.measure.figures import Figure
    from drift_runs.protocol.model import Protocol
    from drift_runs.tracking.index import Index
    from drift_runs.tracking.records import ArmRecord, CampaignRecord

SWITCH_LABELS = {"with": "with outliers", "without": "without outliers", "both": "side by side"}
FACET_LABELS = {
    "derivative": "Derivative",
    "weights": "Weights",
    "kv": "KV",
    "hardware": "Hardware",
    "engine": "Engine",
}
SHOWN_ROLES = ("candidate", "follow-up", "floor", "launch")
"""Roles of arms in the order in which a list of arms names them."""
BESIDE_ROLES = ("floor", "launch")
"""Arms that stand beside others: not filtered, not ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An open page: what it shows and from where."""

    uri: str
    view: state.View
    campaign: CampaignRecord
    book: Book
    protocol: Protocol
    columns: Columns
    row: DeltaGenerator
    """The row of controls that begins with the outlier switch."""

    def arms(self, role: str, *, filtered: bool = True, scored: bool = False) -> list[ArmRecord]:
        """Complete arms of a role that pass the facet filters, ``scored``: of these the ones that have rows. Floors and
        launches always pass: they belong to the figures."""
        return [
            arm
            for arm in self.campaign.arms
            if arm.role == role
            and arm.complete
            and (not filtered or role in BESIDE_ROLES or self.passes(arm))
            and (not scored or arm.scored)
        ]

    def ranking(self) -> Ranking:
        """Which complete candidates and follow-ups may be ranked with one another, whatever the filters hide."""
        return ranking_of([*self.arms("candidate", filtered=False), *self.arms("follow-up", filtered=False)])

    @property
    def colours(self) -> Mapping[str, str]:
        """The colour of each arm, the same on every page whatever is filtered."""
        names = [arm.arm for role in ("candidate", "follow-up") for arm in self.campaign.arms if arm.role == role]
        return palette.arm_colours(names, reference=self.campaign.reference)

    @property
    def sets(self) -> tuple[str, ...]:
        """The sets of windows that figures are shown for: one where no window is declared, as both are the same."""
        return self.view.outlier_sets if self.campaign.outliers else ("with",)

    @property
    def has_positions(self) -> bool:
        """False for a source that gives no positions: continuations, or means by context."""
        return any(window.scored for window in self.protocol.windows)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Run ids of the complete arms: what the campaign's tables across arms were made from."""
        return tuple(arm.run_id for arm in self.campaign.arms if arm.complete)

    def passes(self, arm: ArmRecord) -> bool:
        return all(
            not getattr(self.view, facet) or getattr(arm, facet) in getattr(self.view, facet) for facet in state.FACETS
        )

    def figure(self, arm: str, column: Column, outliers: str) -> Figure | None:
        return self.book.by_arm(column, self.view.scope, outliers).get(arm)

    def includes_outliers(self, arm: str, column: Column) -> bool:
        """True when the figure *with* outliers counts positions that the figure *without* leaves out."""
        return differs_by_outliers(self.figure(arm, column, "with"), self.figure(arm, column, "without"))


def open_bare(title: str) -> state.View:
    """Draw what a page shows that needs no campaign, and return the view."""
    st.html(f"<style>{style.SHEET}</style>")
    view = state.settle(state.Decoded(state.current(), ()))
    st.html(tag("div", _title(title), cls="dr-head"))
    _notes()
    return view


def choose(name: str, allowed: Sequence[str]) -> str:
    """The view's value of a field that only this page knows the choices of; says so where a link asked for another."""
    value, note = state.choose(name, allowed)
    if note:
        st.html(tag("div", note, cls="dr-notes", role="alert"))
    return value


def choose_some(name: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """As :func:`choose`, for a list."""
    value, note = state.choose_some(name, allowed)
    if note:
        st.html(tag("div", note, cls="dr-notes", role="alert"))
    return value


def _notes() -> None:
    for note in state.notes():
        st.html(tag("div", note, cls="dr-notes", role="alert"))


def _title(words: str) -> Html:
    return tag("h1", words, style="font-size:1.7rem;padding:0")


def open_page(title: str) -> Page:
    """Draw the shared part and return what the page needs; stops the run when there is nothing to compare."""
    st.html(f"<style>{style.SHEET}</style>")
    view = state.current()
    try:
        uri = data.store_uri()
        index = data.index(uri) if data.store_exists(uri) else None
    except DriftError as error:
        _unreadable("The store cannot be read.", error)
    campaign = None if index is None else index.campaign(view.campaign) or index.newest()
    if index is None or campaign is None:
        _first_time(uri)
    view = state.settle(state.fit(view, _choices(campaign, uri)))
    _sidebar(view, index, campaign)
    st.html(_header(title, campaign))
    _notes()
    if not campaign.complete:
        _incomplete(campaign)
    row = st.container(horizontal=True)
    row.segmented_control(
        "Declared outlier windows",
        state.OUTLIERS,
        format_func=SWITCH_LABELS.__getitem__,
        key=_keyed("outliers", view.outliers if campaign.outliers else "with"),
        on_change=_changed,
        args=("outliers",),
        required=True,
        disabled=not campaign.outliers,
        help="Windows that the protocol declares as outliers, before any result: figures with them, without them, "
        "or both beside each other. Where none is declared there is nothing to choose.",
    )
    try:
        protocol = _protocol(uri, campaign)
        measured = [arm for arm in campaign.arms if arm.complete]
        book = Book(
            (data.figures(uri, arm.run_id, arm.complete) for arm in measured),
            (data.generation_figures(uri, arm.run_id, arm.complete) for arm in measured),
        )
    except DriftError as error:
        _unreadable("This campaign cannot be read.", error)
    return Page(
        uri=uri,
        view=view,
        campaign=campaign,
        book=book,
        protocol=protocol,
        columns=columns_of(protocol, book),
        row=row,
    )


def chip(word: str, kind: str = "plain", title: str | None = None) -> Html:
    """A small mark: always a word, coloured by kind."""
    return tag("span", word, cls=f"dr-chip dr-{kind}", title=title)


def control(name: str, value: object) -> dict[str, object]:
    """Keyword arguments that tie a widget to a field of the view."""
    return {"key": _keyed(name, value), "on_change": _changed, "args": (name,)}


def _keyed(name: str, value: object) -> str:
    """Put the view's value into the widget's own state before it is drawn: the view is the only source.

    On every run, because a page switch makes a new widget of the same key, which would begin with nothing chosen.
    """
    key = f"control.{name}"
    st.session_state[key] = list(value) if isinstance(value, tuple) else value
    return key


def _changed(name: str) -> None:
    value = st.session_state[f"control.{name}"]
    if value is not None:
        state.change(**{name: value})


def _choices(chosen: CampaignRecord, uri: str) -> state.Choices:
    shown = [arm for arm in chosen.arms if arm.role not in BESIDE_ROLES]
    try:
        protocol = _protocol(uri, chosen)
        panels = [panel.name for panel in protocol.panels]
        constrained = [decode.name for decode in protocol.constrained]
    except DriftError:
        panels, constrained = [], []  # the page says so itself, once the campaign can be changed
    arms = [arm.arm for role in SHOWN_ROLES for arm in chosen.arms if arm.role == role]
    return state.Choices(
        campaigns=[chosen.run_id],
        scopes=["all", *(f"panel:{name}" for name in panels)],
        # A constrained decode has no run of its own: pages that know none fall back to an arm that they know.
        arms=[*arms, *constrained] if arms else [],
        facets={facet: sorted({getattr(arm, facet) for arm in shown}) for facet in state.FACETS},
    )


def _protocol(uri: str, campaign: CampaignRecord) -> Protocol:
    return data.protocol(uri, campaign.run_id, campaign.complete)


def positions_control(page: Page) -> None:
    """All positions or those of one panel."""
    scopes = {"all": "all scored positions"}
    scopes |= {f"panel:{panel.name}": f"panel {panel.name}: {panel.title}" for panel in page.protocol.panels}
    page.row.selectbox(
        "Positions", list(scopes), format_func=scopes.__getitem__, width=215, **control("scope", page.view.scope)
    )


def _sidebar(view: state.View, index: Index, campaign: CampaignRecord) -> None:
    with st.sidebar:
        campaign_list(index, campaign, control("campaign", view.campaign))
        if campaign.complete:
            report_button(index.uri, campaign, view.outliers)
        arms = [arm for arm in campaign.arms if arm.role not in BESIDE_ROLES]
        for facet, label in FACET_LABELS.items():
            values = sorted({getattr(arm, facet) for arm in arms})
            words = hardware_words(values) if facet == "hardware" else {}
            if len(values) > 1 or getattr(view, facet):
                st.multiselect(
                    label,
                    values,
                    format_func=lambda value, words=words: words.get(value, value),
                    placeholder="every value",
                    **control(facet, getattr(view, facet)),
                )


def _header(title: str, campaign: CampaignRecord) -> Html:
    state_chip = (
        chip("draft", "warn", "The protocol was not frozen: its content may have changed between runs.")
        if campaign.draft
        else chip("frozen", "within", "The protocol has a lock, and its content is what was frozen.")
    )
    imported = chip(
        "imported", "outlier", "The rows were made by another tool and read from its files: no engine was run here."
    )
    notes = [tag("p", note) for note in campaign.notes]
    if campaign.imported:
        notes.insert(0, tag("p", tag("b", "What the source says and does not say")))
    return tag(
        "div",
        _title(f"{title}: {campaign.title or campaign.protocol_name}"),
        tag(
            "div",
            tag("b", campaign.protocol_name),
            f" version {campaign.protocol_version}, digest ",
            tag("code", campaign.protocol_sha256[:12], title=campaign.protocol_sha256),
            " ",
            imported if campaign.imported else None,
            state_chip,
            None if campaign.complete else chip("incomplete", "warn"),
            " reference arm ",
            tag("b", campaign.reference),
            [" ", chip(f"taken by run {campaign.reference_run[:8]}", "plain", taken_elsewhere(campaign))]
            if campaign.reference_run
            else None,
        ),
        tag("p", campaign.question, cls="dr-question") if campaign.question else None,
        tag("div", notes, cls="dr-notes") if campaign.notes else None,
        cls="dr-head",
    )


def _incomplete(campaign: CampaignRecord) -> None:
    arms = [
        tag("li", tag("b", arm.arm), f", {arm.role}: ", "measured" if arm.complete else "not finished")
        for arm in campaign.arms
    ]
    st.html(
        tag(
            "div",
            tag(
                "p",
                "This campaign is not complete, so nothing in it is compared. Its arms so far:",
            ),
            tag("ul", arms) if arms else tag("p", "none"),
            tag(
                "p",
                "While it runs, reload this page later. If it was interrupted, start the same command again: it goes "
                "on where it stopped.",
            ),
            cls="dr-say",
        )
    )
    st.stop()


def _unreadable(what: str, error: DriftError) -> NoReturn:
    st.html(tag("div", tag("b", what), " ", error, cls="dr-notes", role="alert"))
    st.stop()


def _first_time(uri: str) -> None:
    st.html(
        tag(
            "div",
            tag("h1", "Nothing measured yet", style="font-size:1.7rem"),
            tag("p", "This store holds no campaign: ", tag("code", _shown_uri(uri))),
            tag("p", "Measure a small model and its variants on this machine, in some minutes:"),
            tag("pre", "make demo"),
            tag("p", "or run a protocol of your own, then reload this page:"),
            tag("pre", "drift run protocols/smollm2-quick.toml"),
            tag("p", "Another store is opened with ", tag("code", "drift dashboard --store DIR"), "."),
            cls="dr-say",
        )
    )
    st.stop()


def _shown_uri(uri: str) -> str:
    from drift_runs.tracking.uris import redacted

    return redacted(uri)
