"""The K best entries of both sides' full rows: what the top-K figures of a block of positions are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.rowmath import SideBlock
from drift_runs.measure.topkmath import TopkFigures, add_logs, log_sum, places, topk_figures


@dataclass(frozen=True, slots=True, kw_only=True)
class BestEntries:
    """n positions; K is the dictionary's size when that is smaller. An unusable row has ids of -1 and NaN elsewhere."""

    reference_ids: NDArray[np.int32]
    """int32[n, K] by (-logprob, id)."""
    candidate_ids: NDArray[np.int32]
    """int32[n, K], the candidate's own best."""
    reference: NDArray[np.float64]
    """float64[n, K]: log-probabilities of the reference's best tokens there."""
    candidate: NDArray[np.float64]
    """float64[n, K]: of the same tokens in the candidate."""
    own: NDArray[np.float64]
    """float64[n, K]: of the candidate's own best tokens in the candidate."""
    reference_tail: NDArray[np.float64]
    """float64[n]: log mass of the reference outside its K best; -inf for none, and so are the other two."""
    candidate_tail: NDArray[np.float64]
    """Of the candidate outside the *reference's* K best."""
    own_tail: NDArray[np.float64]
    """Of the candidate outside its own K best."""

    @classmethod
    def of(cls, reference: SideBlock, candidate: SideBlock) -> BestEntries:
        """Those of one block, read while the rows are still at hand."""
        best = reference.best_entries
        own = candidate.best_entries
        candidate_tail = np.full(len(best.ids), np.nan)
        rows = np.flatnonzero(reference.usable & candidate.usable)
        if len(rows):
            candidate_tail[rows] = candidate.log_mass_outside(rows, best.ids[rows])
        return cls(
            reference_ids=best.ids,
            candidate_ids=own.ids,
            reference=reference.logprobs_of(best.ids),
            candidate=candidate.logprobs_of(best.ids),
            own=candidate.logprobs_of(own.ids),
            reference_tail=best.tail_logprob,
            candidate_tail=candidate_tail,
            own_tail=own.tail_logprob,
        )

    @classmethod
    def joined(cls, parts: Sequence[BestEntries]) -> BestEntries:
        """Blocks in order as one; at least one."""
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )

    @property
    def present(self) -> NDArray[np.bool_]:
        """bool[n, K]: where the reference has an entry."""
        return self.reference_ids >= 0

    @property
    def own_present(self) -> NDArray[np.bool_]:
        """bool[n, K]: where the candidate has one."""
        return self.candidate_ids >= 0

    def figures(self) -> TopkFigures:
        """The top-K figures of the n positions; what an unusable row gives means nothing."""
        place = places(self.reference_ids, self.candidate_ids)
        shared = place >= 0
        own_shared = np.zeros(self.own.shape, dtype=bool)
        row, column = np.nonzero(shared)
        own_shared[row, place[row, column]] = True
        return topk_figures(
            reference=self.reference,
            candidate=self.candidate,
            present=self.present,
            shared=shared,
            reference_tail=self.reference_tail,
            candidate_tail=self.candidate_tail,
            # What is outside S is summed too: the tail, and the entries that the other side does not have.
            reference_outside=add_logs(self.reference_tail, log_sum(self.reference, self.present & ~shared)),
            candidate_outside=add_logs(self.own_tail, log_sum(self.own, self.own_present & ~own_shared)),
            least=self.own[:, -1],
        )
