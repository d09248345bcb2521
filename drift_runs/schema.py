"""Arrow schemas of every table that is written: the one source of columns.

A column's unit is in its name where it has one. Lists and hashes have fixed types so that a file never depends on
the data in it. The schema version is in the metadata of every file; a reader refuses a version it does not know.
"""

from __future__ import annotations

import pyarrow as pa

VERSION_KEY = b"drift.schema"


def _schema(version: str, fields: list[tuple[str, pa.DataType, bool]]) -> pa.Schema:
    return pa.schema(
        [pa.field(name, kind, nullable=nullable) for name, kind, nullable in fields],
        metadata={VERSION_KEY: version.encode()},
    )


def version_of(schema: pa.Schema) -> str:
    """The schema version that a table or file carries; empty when it carries none."""
    return (schema.metadata or {}).get(VERSION_KEY, b"").decode()


ROWS = _schema(
    "drift.rows/1",
    [
        ("window", pa.dictionary(pa.int16(), pa.string()), False),
        ("position", pa.int32(), False),
        ("role", pa.dictionary(pa.int8(), pa.string()), False),
        ("token", pa.int32(), False),
        ("logprob", pa.float32(), True),
        ("rank", pa.int32(), True),  # 1 is the best token
        ("top_ids", pa.list_(pa.int32()), False),  # by (-logprob, id)
        ("top_logprobs", pa.list_(pa.float32()), False),
        ("tail_logprob", pa.float64(), True),  # log mass outside the top K
        ("padding_mass", pa.float64(), True),  # probability on columns beyond the dictionary
        ("tie_count", pa.int32(), False),  # tokens that share the best logit
        ("p1", pa.float64(), True),
        ("entropy_nats", pa.float64(), True),
        ("row_top", pa.binary(32), True),
        ("row_full", pa.binary(32), True),
        ("flags", pa.int32(), False),  # bits of RowFlag
    ],
)
"""One row a scored position of one arm, launch, pass and window."""

COMPARISON = _schema(
    "drift.comparison/1",
    [
        ("window", pa.dictionary(pa.int16(), pa.string()), False),
        ("position", pa.int32(), False),
        ("role", pa.dictionary(pa.int8(), pa.string()), False),
        ("token", pa.int32(), False),
        ("kl_full_nats", pa.float64(), True),  # null when not finite: see flags
        ("flip", pa.bool_(), True),
        ("flip_strict", pa.bool_(), True),
        ("reference_top", pa.int32(), False),
        ("candidate_top", pa.int32(), False),
        ("reference_p1", pa.float64(), True),
        ("reference_margin", pa.float64(), True),  # p1 - p2
        ("candidate_p1", pa.float64(), True),
        ("p_of_candidate_top", pa.float64(), True),  # P(argmax Q)
        ("q_of_reference_top", pa.float64(), True),  # Q(argmax P)
        ("reference_nll_nats", pa.float64(), True),  # of the actual token
        ("candidate_nll_nats", pa.float64(), True),
        ("dp", pa.float64(), True),  # Q(actual) - P(actual)
        ("reference_entropy_nats", pa.float64(), True),
        ("candidate_entropy_nats", pa.float64(), True),
        ("max_abs_dlogit", pa.float32(), True),  # largest |difference| of raw logits
        ("row_identical", pa.bool_(), True),  # row.full hashes equal; null when either is unhashable
        ("flags", pa.int32(), False),
    ],
)
"""One row a scored position of a candidate against the reference: primary evidence, every figure is made from it."""

FIGURES = _schema(
    "drift.figures/1",
    [
        ("arm", pa.string(), False),
        ("scope_kind", pa.string(), False),  # all, panel, kind, range, window, history, band
        ("scope", pa.string(), False),  # its name; "all" for scope_kind all
        ("outliers", pa.string(), False),  # with, without, only
        ("spec", pa.string(), False),  # spec id of METRICS: kl.full, flip, flip.strict, dnll, ...
        ("statistic", pa.string(), False),  # mean, p95, rate, count, tail_share, worst_range.p95, ...
        ("value", pa.float64(), True),  # null: withheld or not measured, reason says why
        ("n", pa.int64(), False),  # positions used
        ("excluded", pa.int64(), False),  # positions left out because null or not finite
        ("beyond", pa.int64(), True),  # values beyond a quantile
        ("state", pa.string(), False),  # firm, indicative, withheld
        ("reason", pa.string(), False),  # why withheld or what to mind; empty when nothing
        ("low", pa.float64(), True),
        ("high", pa.float64(), True),
        ("interval", pa.string(), False),  # method, confidence and unit; empty when there is none
        ("clusters", pa.int64(), True),
        ("named", pa.string(), False),  # the range that a worst-range statistic names
        ("named_share", pa.float64(), True),  # share of resamples that name the same range
        ("floor", pa.string(), False),  # name of the floor that stands beside it; empty when none
        ("floor_value", pa.float64(), True),  # the same statistic of the floor
        ("verdict", pa.string(), False),  # above, within, inconclusive; empty when none is given
        ("verdict_reason", pa.string(), False),
    ],
)
"""One row a figure: long form, so that a new statistic is a new row and not a new column."""

DETERMINISM = _schema(
    "drift.determinism/1",
    [
        ("arm", pa.string(), False),  # name of the floor or candidate
        ("against", pa.string(), False),
        ("window", pa.string(), False),
        ("rows", pa.int64(), False),
        ("rows_identical", pa.int64(), False),
        ("rows_unhashable", pa.int64(), False),
        ("window_identical", pa.bool_(), False),
        ("max_abs_dlogit", pa.float64(), True),
        ("first_difference", pa.int64(), True),  # position; null when identical
    ],
)
"""One row a window: do two executions agree to the byte."""


class RowFlag:
    """Bits of the ``flags`` columns."""

    SHORT = 1  # fewer than K entries were returned
    UNHASHABLE = 2  # NaN or infinity: no hash
    PADDING = 4  # columns beyond the dictionary carried mass
    INFINITE_KL = 8  # P > 0 where Q = 0: counted, excluded from means
    NONFINITE = 16  # a logit was NaN or plus infinity, or all were minus infinity
    REFERENCE_TIED = 32  # more than one best token in the reference
    CANDIDATE_TIED = 64
