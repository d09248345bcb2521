"""What the page about branches reads: whose roots were followed, their figures, outcomes, futures and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard import data, state
from dashboard.figures import Column, split_scope
from dashboard.frame import SHOWN_ROLES
from drift_runs.errors import StoreError
from drift_runs.measure.figures import Figure
from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.text import TokenText

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

OUTSIDE = "outside"
"""Stands for the kind of a root outside every range."""
BEFORE_CHARACTERS = 60
SPECS: Mapping[str, str] = {pair: "branches" if pair == state.PAIRS[0] else f"branches.{pair}" for pair in state.PAIRS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """An arm, or a constrained decode of one, whose roots were followed."""

    name: str
    record: ArmRecord
    """The run that holds its tables."""
    title: str = ""
    constrained: bool = False

    @property
    def null(self) -> bool:
        """A floor: the reference (or the arm it repeats) against itself."""
        return self.record.role == "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One explored root of one arm, with what became of it in one pair of futures."""

    outcome: Mapping[str, Any]
    """Row of schema ``OUTCOMES``."""
    row: Mapping[str, Any]
    """Row of schema ``ROOTS``; empty where none is stored."""
    band: str
    """One of ``BANDS``; empty where the reference's confidence is not known."""

    @property
    def key(self) -> str:
        """``window/position``: its name in the URL."""
        return f"{self.outcome['window']}/{self.outcome['position']}"

    @property
    def kind(self) -> str:
        return self.outcome["kind"] or OUTSIDE

    @property
    def evidence(self) -> dict[str, Any]:
        """What the outcome was decided from; empty where the stored text cannot be read."""
        try:
            found = json.loads(self.outcome["evidence"])
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class RootTexts:
    """What the ids of a campaign's streams say, where it stored that."""

    dictionary: Sequence[bytes]
    """Empty where it is not stored."""
    streams: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def history(self, window: str, position: int) -> Sequence[int]:
        """The ids in front of a position; empty where the stream is not stored."""
        return self.streams.get(window, ())[:position]

    def before(self, window: str, position: int) -> str | None:
        """The last characters in front of a position; None where they are not stored."""
        if not self.dictionary or window not in self.streams:
            return None
        return TokenText(self.dictionary).before(self.streams[window], position, BEFORE_CHARACTERS)

    def token(self, token: int | None) -> str | None:
        """One token, visible; None where it is not known."""
        if token is None or not self.dictionary:
            return None
        return TokenText(self.dictionary).text(token)


class Branched:
    """The branches of the page's campaign, in the page's pair of futures and positions."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pair = page.view.pair
        self.spec = SPECS[self.pair]
        kind, name = split_scope(page.view.scope)
        table = page.book.generated
        wanted = pc.and_(pc.equal(table["scope_kind"], kind), pc.equal(table["scope"], name))
        wanted = pc.and_(wanted, pc.match_substring_regex(table["spec"], r"^branches(\.|$)"))
        self._figures: dict[tuple[str, str, str, str], Figure] = {}
        for row in table.filter(wanted).to_pylist():
            found = Figure(**row)
            self._figures.setdefault((found.arm, found.spec, found.statistic, found.outliers), found)
        any_scope = table.filter(pc.match_substring_regex(table["spec"], r"^branches(\.|$)"))
        self.names = frozenset(pc.unique(any_scope["arm"]).to_pylist())
        """Every arm that followed roots, constrained decodes among them."""
        self._futures: dict[str, _Futures] = {}

    def followed(self) -> list[Followed]:
        """Those that pass the facet filters, candidates with their constrained decodes before floors."""
        found = []
        for role in SHOWN_ROLES:
            for record in self.page.arms(role):
                if record.arm in self.names:
                    found.append(Followed(name=record.arm, record=record, title=record.title))
                for decode in self.page.protocol.constrained:
                    if decode.arm == record.arm and decode.name in self.names:
                        found.append(Followed(name=decode.name, record=record, title=decode.title, constrained=True))
        return found

    def figure(self, name: str, statistic: str, outliers: str, behind: str = "") -> Figure | None:
        """A figure of the page's pair; ``behind`` is what stands behind its spec: ``.resync``, ``.propagated``."""
        return self._figures.get((name, f"{self.spec}{behind}", statistic, outliers))

    def column(self, header: str, statistic: str) -> Column:
        """A share of the page's pair as a table column."""
        return Column(key=statistic, header=header, spec=self.spec, statistic=statistic, unit="share")

    def csv_figures(self, names: Sequence[str]) -> list[Figure]:
        """Every figure of some arms over the chosen positions, all pairs."""
        kept = set(names)
        return [
            figure
            for figure in self._figures.values()
            if figure.arm in kept and (figure.outliers in self.page.sets or not self.page.campaign.outliers)
        ]

    def bounds(self) -> tuple[str, ...]:
        """What the generation was bounded to below its protocol, each once."""
        campaign = self.page.campaign
        runs = [(campaign.run_id, campaign.complete), *((arm.run_id, True) for arm in campaign.arms if arm.complete)]
        return tuple(dict.fromkeys(words for run, done in runs for words in data.bounds(self.page.uri, run, done)))

    def roots(self, one: Followed) -> list[Root]:
        """The explored roots of an arm over the chosen positions and windows, in the order of exploration."""
        table = data.outcomes(self.page.uri, one.record.run_id, True)
        table = table.filter(pc.and_(pc.equal(table["arm"], one.name), pc.equal(table["pair"], self.pair)))
        kind, name = split_scope(self.page.view.scope)
        if kind == "panel":
            table = table.filter(pc.equal(table["panel"], name))
        if self.page.sets == ("without",):
            table = table.filter(pc.invert(table["outlier"]))
        stored = data.roots(self.page.uri, one.record.run_id, True).to_pylist()
        rows = {(row["window"], row["position"]): row for row in stored}
        found = [(outcome, rows.get((outcome["window"], outcome["position"]), {})) for outcome in table.to_pylist()]
        p1 = np.array([row.get("reference_p1", np.nan) for _, row in found], dtype=np.float64)
        bands = ["" if at < 0 else BANDS[at] for at in band_index(p1, self.page.protocol.bands)]
        roots = [Root(outcome=outcome, row=row, band=band) for (outcome, row), band in zip(found, bands, strict=True)]
        return sorted(roots, key=lambda root: root.row.get("order", len(rows)))

    def reference_of(self, one: Followed) -> str:
        """What an arm's roots are flips against."""
        return one.record.reference or self.page.campaign.reference

    def futures(self, one: Followed, *, reference: bool) -> _Futures:
        """An arm's own futures, or those of what it is compared with, which stand with the campaign or an arm."""
        campaign = self.page.campaign
        run = one.record.run_id
        if reference:
            against = one.record.reference
            run = next((arm.run_id for arm in campaign.arms if arm.arm == against and arm.complete), campaign.run_id)
        if run not in self._futures:
            self._futures[run] = _Futures(data.futures(self.page.uri, run, campaign.complete))
        return self._futures[run]

    def constrained(self, one: Followed) -> _Futures:
        """The futures of a constrained decode, which stand with the arm that it constrains."""
        key = f"{one.record.run_id}/{one.name}"
        if key not in self._futures:
            self._futures[key] = _Futures(data.constrained(self.page.uri, one.record.run_id, True, one.name))
        return self._futures[key]

    def pair_of(self, one: Followed, root: Root) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The two futures of a root as rows of schema ``FUTURES``; None for one that is not stored.

        A constrained decode has one future of a root, behind the token that its grammar let it choose; a campaign of
        an older version stored the text alone.
        """
        if not root.row:
            return None, None
        right_reference = self.pair == "token"
        right_first = "reference_top" if self.pair == "weights" else "candidate_top"
        left = self.futures(one, reference=True).of(root, "reference_top")
        if one.constrained:
            return left, self.constrained(one).of_place(root)
        return left, self.futures(one, reference=right_reference).of(root, right_first)

    def measured(self, one: Followed, root: Root) -> dict[str, Any] | None:
        """The root's position as it was measured (schema ``COMPARISON``); None where positions were not kept."""
        window, position = root.outcome["window"], root.outcome["position"]
        try:
            table = data.window_rows(self.page.uri, one.record.run_id, window, True)
        except StoreError:
            return None
        found = table.filter(pc.equal(table["position"], position)).to_pylist()
        return found[0] if found else None

    def texts(self) -> RootTexts:
        """The campaign's dictionary and streams."""
        campaign = self.page.campaign
        dictionary = data.dictionary(self.page.uri, campaign.run_id, campaign.complete)
        streams = data.streams(self.page.uri, campaign.run_id, campaign.complete)
        return RootTexts(
            dictionary["bytes"].to_pylist(),
            dict(zip(streams["window"].to_pylist(), streams["tokens"].to_pylist(), strict=True)),
        )


class _Futures:
    """Futures of one run (schema ``FUTURES``), found by root and first token."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        keys = zip(*(table[name].to_pylist() for name in ("window", "position", "first")), strict=True)
        self._at = {key: at for at, key in enumerate(keys)}
        self._at_place = {key[:2]: at for key, at in self._at.items()}

    def of(self, root: Root, first: str) -> dict[str, Any] | None:
        """The future of a root behind the token in column ``first`` of its row; None where none is stored."""
        return self._row(self._at.get((root.outcome["window"], root.outcome["position"], root.row[first])))

    def of_place(self, root: Root) -> dict[str, Any] | None:
        """The future of a root, whatever its first token; for a table with one of each."""
        return self._row(self._at_place.get((root.outcome["window"], root.outcome["position"])))

    def _row(self, at: int | None) -> dict[str, Any] | None:
        return None if at is None else self.table.slice(at, 1).to_pylist()[0]
