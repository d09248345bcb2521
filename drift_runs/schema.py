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
    "drift.rows/2",
    [
        ("window", pa.dictionary(pa.int16(), pa.string()), False),
        ("position", pa.int32(), False),
        ("role", pa.dictionary(pa.int8(), pa.string()), False),
        ("token", pa.int32(), False),
        ("logprob", pa.float32(), True),
        ("rank", pa.int32(), True),  # 1 is the best token
        ("top_ids", pa.list_(pa.int32()), False),  # by (-logprob, id)
        ("top_logprobs", pa.list_(pa.float32()), False),
        ("wanted_ids", pa.list_(pa.int32()), True),  # ids that were asked for beside the top K, ascending
        ("wanted_logprobs", pa.list_(pa.float32()), True),
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
    "drift.comparison/2",
    [
        ("window", pa.dictionary(pa.int16(), pa.string()), False),
        ("position", pa.int32(), False),
        ("role", pa.dictionary(pa.int8(), pa.string()), False),
        ("token", pa.int32(), True),  # null where a source does not say
        ("kl_full_nats", pa.float64(), True),  # null when not finite or not measured: see flags
        ("js_full_nats", pa.float64(), True),
        ("top_k", pa.int32(), True),  # K of the kl_topk columns and of the top-K entropies
        ("kl_topk_tail_nats", pa.float64(), True),
        ("kl_topk_shared_nats", pa.float64(), True),
        ("kl_topk_lower_nats", pa.float64(), True),
        ("kl_topk_floor_nats", pa.float64(), True),
        ("shared_support", pa.int32(), True),  # tokens in both top-K lists
        ("reference_mass_outside", pa.float64(), True),  # reference's mass outside the shared tokens, its tail included
        ("reference_mass_dropped", pa.float64(), True),  # of the reference's K, not shared: "dropped" in receipts
        ("missed", pa.int32(), True),  # of the reference's K, not among the candidate's K
        ("flip", pa.bool_(), True),
        ("flip_strict", pa.bool_(), True),
        ("flip_text", pa.bool_(), True),  # argmax Q differs from the text's own token
        ("swap", pa.bool_(), True),  # the two best tokens change places
        ("reference_top", pa.int32(), True),
        ("candidate_top", pa.int32(), True),
        ("reference_p1", pa.float64(), True),
        ("reference_margin", pa.float64(), True),  # p1 - p2
        ("candidate_p1", pa.float64(), True),
        ("p_of_candidate_top", pa.float64(), True),  # P(argmax Q)
        ("q_of_reference_top", pa.float64(), True),  # Q(argmax P)
        ("reference_nll_nats", pa.float64(), True),  # of the actual token
        ("candidate_nll_nats", pa.float64(), True),
        ("dp", pa.float64(), True),  # Q(actual) - P(actual)
        ("reference_rank", pa.int32(), True),  # of the actual token; 1 is the best
        ("candidate_rank", pa.int32(), True),
        ("reference_entropy_nats", pa.float64(), True),  # over the dictionary
        ("candidate_entropy_nats", pa.float64(), True),
        ("reference_entropy_topk_nats", pa.float64(), True),  # K entries plus one tail bucket
        ("candidate_entropy_topk_nats", pa.float64(), True),
        ("reference_padding_mass", pa.float64(), True),
        ("candidate_padding_mass", pa.float64(), True),
        ("copy", pa.bool_(), True),  # completes an n-gram that ended long before; null where the text is not known
        ("literal", pa.bool_(), True),  # lies in a literal that occurs earlier in the stream
        ("max_abs_dlogit", pa.float32(), True),  # largest |difference| of raw logits
        ("max_abs_dlogprob", pa.float32(), True),  # of log-probabilities of shared tokens, where logits are not known
        ("row_identical", pa.bool_(), True),  # row hashes equal; null when either is unhashable
        ("row_hash", pa.dictionary(pa.int8(), pa.string()), True),  # which hash that was: row.full, row.top@20
        ("flags", pa.int32(), False),
    ],
)
"""One row a scored position of a candidate against the reference: primary evidence, every figure is made from it."""

FIGURES = _schema(
    "drift.figures/2",
    [
        ("arm", pa.string(), False),
        ("scope_kind", pa.string(), False),  # see measure.scopes.SCOPE_KINDS
        ("scope", pa.string(), False),  # its name; "all" for scope_kind all
        ("outliers", pa.string(), False),  # with, without, only
        ("spec", pa.string(), False),  # spec id with its K: kl.full, kl.topk-shared@20, flip, dnll, ...
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
        ("standard_error", pa.float64(), True),  # clustered
        ("bca_low", pa.float64(), True),  # bias-corrected and accelerated interval of the same resamples
        ("bca_high", pa.float64(), True),
        ("t_low", pa.float64(), True),  # Student's t on the log of cluster means, shifted to the mean, for few clusters
        ("t_high", pa.float64(), True),
        ("clusters", pa.int64(), True),
        ("named", pa.string(), False),  # the range that a worst-range statistic names
        ("named_share", pa.float64(), True),  # of the resamples that contain the range, the share that names it
        ("floor", pa.string(), False),  # name of the floor that stands beside it; empty when none
        ("floor_value", pa.float64(), True),  # the same statistic of the floor
        ("borrowed", pa.bool_(), False),  # the floor is one of another reference: shown, and no verdict
        ("verdict", pa.string(), False),  # above, within, inconclusive; empty when none is given
        ("verdict_reason", pa.string(), False),
    ],
)
"""One row a figure: long form, so that a new statistic is a new row and not a new column."""

DISTRIBUTION = _schema(
    "drift.distribution/1",
    [
        ("arm", pa.string(), False),
        ("spec", pa.string(), False),  # of the divergence that leads the protocol
        ("scope_kind", pa.string(), False),
        ("scope", pa.string(), False),
        ("outliers", pa.string(), False),  # with, without, only
        ("low_nats", pa.float64(), True),  # both null in the one row of a scope that has no positive value
        ("high_nats", pa.float64(), True),  # null: the last bin has no upper edge
        ("count", pa.int64(), False),  # positions in [low, high)
        ("n", pa.int64(), False),  # positions of the scope with a finite value; so are the three below of the scope
        ("not_positive", pa.int64(), False),  # of them, those that lie in no bin: zero, or what storage left below it
        ("infinite", pa.int64(), False),  # not among n
        ("missing", pa.int64(), False),  # not measured, not among n
    ],
)
"""How often a divergence has which size: one row an occupied bin of :mod:`measure.histograms`, 40 bins a decade."""

DETERMINISM = _schema(
    "drift.determinism/2",
    [
        ("arm", pa.string(), False),  # name of the floor or candidate
        ("against", pa.string(), False),
        ("window", pa.string(), False),
        ("rows", pa.int64(), False),
        ("rows_identical", pa.int64(), False),
        ("rows_unhashable", pa.int64(), False),
        ("window_identical", pa.bool_(), False),
        ("row_hash", pa.string(), False),  # row.full, or row.top@K
        ("max_abs_dlogit", pa.float64(), True),
        ("max_abs_dlogprob", pa.float64(), True),
        ("first_difference", pa.int64(), True),  # position; null when identical
        ("window_hash", pa.binary(32), True),  # over the arm's row hashes; null where a row has none
    ],
)
"""One row a window: do two executions agree to the byte."""


LISTED = _schema(
    "drift.listed/1",
    [
        ("arm", pa.string(), False),
        ("list", pa.string(), False),  # strong_overturn, dnll, kl, support_collapse
        ("place", pa.int32(), False),  # 1 is the first of its list
        ("window", pa.string(), False),
        ("position", pa.int32(), False),
        ("role", pa.string(), False),
        ("range", pa.string(), False),  # empty outside every range
        ("outlier", pa.bool_(), False),  # the window is declared as an outlier
        ("token", pa.int32(), True),
        ("token_text", pa.string(), True),  # null where the dictionary is not known
        ("reference_top", pa.int32(), True),
        ("reference_text", pa.string(), True),
        ("candidate_top", pa.int32(), True),
        ("candidate_text", pa.string(), True),
        ("reference_p1", pa.float64(), True),
        ("candidate_p1", pa.float64(), True),
        ("q_of_reference_top", pa.float64(), True),
        ("p_of_candidate_top", pa.float64(), True),
        ("spec", pa.string(), False),  # of the divergence in this row
        ("divergence_nats", pa.float64(), True),
        ("dnll_nats", pa.float64(), True),
        ("flip", pa.bool_(), True),
        ("confident", pa.bool_(), True),  # either side gave the actual token more than marks.confident_above
        ("copy", pa.bool_(), True),
        ("literal", pa.bool_(), True),
        ("before", pa.string(), True),  # the end of the text before the position
        ("after", pa.string(), True),
        ("of", pa.int64(), False),  # how many rows the whole list would have
    ],
)
"""The positions of an arm that a person should read, worst first, each list cut after a number of rows."""

ANSWERS = _schema(
    "drift.answers/1",
    [
        ("arm", pa.string(), False),
        ("answer", pa.string(), False),
        ("window", pa.string(), False),
        ("document", pa.string(), False),
        ("panel", pa.string(), False),
        ("range", pa.string(), False),  # empty outside every range
        ("kind", pa.string(), False),  # of that range; empty outside every range
        ("outlier", pa.bool_(), False),  # the window is declared as an outlier
        ("form", pa.string(), False),  # call, json, text
        ("from", pa.int32(), False),
        ("to", pa.int32(), False),
        ("unknown", pa.int32(), False),  # positions at which a best token is not known: then the answer is not judged
        ("reference_exact", pa.bool_(), True),
        ("exact", pa.bool_(), True),
        ("wrong", pa.int32(), True),  # positions at which the arm's best token is not the text's own
        ("first_wrong", pa.int32(), True),  # position of the first of them; null where there is none
        ("literal", pa.bool_(), True),  # that token lies in a literal that occurs earlier
        ("token", pa.int32(), True),  # the expected token there
        ("token_text", pa.string(), True),
        ("candidate_top", pa.int32(), True),
        ("candidate_text", pa.string(), True),
        ("reference_p", pa.float64(), True),  # P(expected token)
        ("candidate_p", pa.float64(), True),  # Q(expected token)
        ("candidate_p1", pa.float64(), True),  # Q(argmax Q)
        ("text", pa.string(), True),  # the expected answer; null where the dictionary is not known
        ("wrong_from", pa.int32(), True),  # the expected token there is text[wrong_from:wrong_to], in characters
        ("wrong_to", pa.int32(), True),  # both null where nothing is wrong or the text is not known
    ],
)
"""One row an expected answer of the protocol: would the arm have written it to the letter, and where not."""

PAIRS = _schema(
    "drift.pairs/1",
    [
        ("left", pa.string(), False),
        ("right", pa.string(), False),
        ("scope_kind", pa.string(), False),
        ("scope", pa.string(), False),
        ("outliers", pa.string(), False),
        ("spec", pa.string(), False),
        ("statistic", pa.string(), False),  # mean, rate
        ("left_value", pa.float64(), True),
        ("right_value", pa.float64(), True),
        ("difference", pa.float64(), True),  # left minus right on the positions that both have
        ("n", pa.int64(), False),
        ("excluded", pa.int64(), False),
        ("low", pa.float64(), True),
        ("high", pa.float64(), True),
        ("interval", pa.string(), False),
        ("bca_low", pa.float64(), True),
        ("bca_high", pa.float64(), True),
        ("standard_error", pa.float64(), True),
        ("clusters", pa.int64(), True),
        ("p_sign_flip", pa.float64(), True),  # cluster sign-flip permutation, two-sided: this one decides
        ("sign_flip", pa.string(), False),  # exact or sampled, and of how many clusters
        ("left_only", pa.int64(), True),  # positions where only the left arm flips
        ("right_only", pa.int64(), True),
        ("p_mcnemar", pa.float64(), True),  # exact, positions independent
        ("windows", pa.int64(), True),
        ("windows_left_above", pa.int64(), True),
        ("reason", pa.string(), False),  # why a value is absent or must not be used; empty when nothing
    ],
)
"""Two candidates against each other on the same positions of the same reference."""

AGREEMENT = _schema(
    "drift.agreement/1",
    [
        ("left", pa.string(), False),  # spec/statistic
        ("right", pa.string(), False),
        ("outliers", pa.string(), False),
        ("tau", pa.float64(), True),  # Kendall's tau-b of the arms' order
        ("arms", pa.int64(), False),
        ("concordant", pa.int64(), False),
        ("discordant", pa.int64(), False),
        ("tied", pa.int64(), False),
        ("reason", pa.string(), False),
    ],
)
"""Do two figures put the arms in the same order?"""

PROPOSALS = _schema(
    "drift.proposals/1",
    [
        ("window", pa.string(), False),
        ("rule", pa.string(), False),  # floor_multiple, volatile_rows
        ("floor", pa.string(), False),
        ("spec", pa.string(), False),
        ("value", pa.float64(), False),
        ("others_median", pa.float64(), True),
        ("threshold", pa.float64(), False),
        ("declared", pa.bool_(), False),  # the protocol declares the window already
        ("post_hoc", pa.bool_(), False),  # made after results: changes no figure of the protocol
        ("reason", pa.string(), False),
    ],
)
"""Windows that a rule of the protocol would report separately."""

CONTEXTS = _schema(
    "drift.contexts/1",
    [
        ("context", pa.string(), False),
        ("cluster", pa.string(), False),
        ("group", pa.string(), False),  # stratum; empty when there is none
        ("positions", pa.int64(), False),
        ("mean_nats", pa.float64(), True),
        ("median_nats", pa.float64(), True),
        ("top1_agreement", pa.float64(), True),
    ],
)
"""Means of a divergence by context, where the positions themselves are not known."""

ROLLOUTS = _schema(
    "drift.rollouts/1",
    [
        ("prompt", pa.string(), False),  # its name or text
        ("run", pa.int32(), False),  # repeats count from 0
        ("tokens", pa.list_(pa.string()), False),
        ("token_ids", pa.list_(pa.int32()), True),  # null where the source gives texts alone
        ("logprobs", pa.list_(pa.float64()), True),
    ],
)
"""Free-running continuations of one arm."""

ROOTS = _schema(
    "drift.roots/1",
    [
        ("arm", pa.string(), False),
        ("order", pa.int32(), False),  # in which roots are explored, from 0: a bounded run explores the first ones
        ("window", pa.string(), False),
        ("document", pa.string(), False),
        ("panel", pa.string(), False),
        ("position", pa.int32(), False),
        ("range", pa.string(), False),  # empty outside every range
        ("kind", pa.string(), False),
        ("outlier", pa.bool_(), False),
        # strong, drawn, every; floor: where others were followed; visited: there too, and it wrote another token
        ("why", pa.string(), False),
        ("reference_top", pa.int32(), False),  # first token of the reference's future
        ("candidate_top", pa.int32(), False),  # equal to reference_top where a floor is followed without a flip
        ("reference_p1", pa.float64(), False),
        ("candidate_p1", pa.float64(), True),
        ("literal", pa.bool_(), True),
    ],
)
"""Positions from which futures are followed, one row a root of an arm or floor."""

FUTURES = _schema(
    "drift.futures/2",
    [
        ("window", pa.string(), False),
        ("position", pa.int32(), False),
        ("first", pa.int32(), False),  # token at the position: given, not chosen
        ("best", pa.int32(), False),  # what these weights would have chosen there, in this execution
        ("tokens", pa.list_(pa.int32()), False),  # from the first on; an environment's answers included
        ("written", pa.list_(pa.bool_()), False),  # false: the first token, and what an environment answered
        ("logprobs", pa.list_(pa.float64()), False),  # ln of the probability of each written token; null for the others
        ("text", pa.string(), False),  # all tokens; bytes that are no UTF-8 as U+FFFD
        ("ended", pa.string(), False),  # structure, turn, horizon, context
        ("turns", pa.int32(), False),  # turns of the assistant that were begun
        # The best few tokens at each written one, by (-logit, id), and the ln of their probabilities; empty at the
        # others. What a grammar forbids is there too. Null in files of version 1.
        ("top_ids", pa.list_(pa.list_(pa.int32())), True),
        ("top_logprobs", pa.list_(pa.list_(pa.float64())), True),
    ],
)
"""Greedy continuations of one execution, one row a root and first token. ``ended``: ``structure`` is closed, the
``turn`` ended with its token, the ``horizon`` or the engine's ``context`` ran out."""

OUTCOMES = _schema(
    "drift.outcomes/1",
    [
        ("arm", pa.string(), False),  # candidate, floor, or constrained decode
        ("pair", pa.string(), False),  # branch, token, weights: see generate.outcomes
        ("window", pa.string(), False),
        ("document", pa.string(), False),
        ("panel", pa.string(), False),
        ("position", pa.int32(), False),
        ("range", pa.string(), False),
        ("kind", pa.string(), False),
        ("outlier", pa.bool_(), False),
        ("why", pa.string(), False),
        ("outcome", pa.string(), False),  # see generate.outcomes.OUTCOMES
        ("rule", pa.string(), False),  # what decided
        ("structure", pa.string(), False),  # call, json, sql, shell, python, fence; empty: none
        ("literal", pa.bool_(), False),  # literals differ: a changes that is marked
        ("loop", pa.bool_(), False),  # the candidate's future repeats itself
        ("resync_reference", pa.int32(), True),  # tokens of the reference's future before it re-synchronises
        ("resync_candidate", pa.int32(), True),
        ("propagated", pa.int32(), True),  # later literals or calls of the candidate's future that carry a wrong value
        ("reference_ended", pa.string(), False),
        ("candidate_ended", pa.string(), False),
        ("reference_tokens", pa.int32(), False),
        ("candidate_tokens", pa.int32(), False),
        ("reference_text", pa.string(), False),
        ("candidate_text", pa.string(), False),
        ("evidence", pa.string(), False),  # canonical JSON: parsed calls side by side, messages, literals, offsets
    ],
)
"""What became of each explored root."""

TASKS = _schema(
    "drift.tasks/1",
    [
        ("arm", pa.string(), False),
        ("task", pa.string(), False),
        ("window", pa.string(), False),
        ("document", pa.string(), False),
        ("panel", pa.string(), False),
        ("range", pa.string(), False),
        ("kind", pa.string(), False),
        ("outlier", pa.bool_(), False),
        ("check", pa.string(), False),
        ("passed", pa.bool_(), True),  # null: the checker could not decide, reason says why
        ("reason", pa.string(), False),  # why it failed or is not known; empty when it passed
        ("ended", pa.string(), False),  # turn, horizon, context
        ("tokens", pa.int32(), False),
        ("text", pa.string(), False),
    ],
)
"""Every arm's own answer to every task, checked."""

TASK_DRIFT = _schema(
    "drift.task-drift/1",
    [
        ("arm", pa.string(), False),
        ("task", pa.string(), False),
        ("window", pa.string(), False),
        ("document", pa.string(), False),
        ("panel", pa.string(), False),
        ("range", pa.string(), False),  # that the task begins in; empty outside every range
        ("kind", pa.string(), False),
        ("outlier", pa.bool_(), False),
        ("check", pa.string(), False),
        ("from", pa.int32(), False),  # span of the answer in the window's own text, half-open
        ("to", pa.int32(), False),
        ("passed", pa.bool_(), True),  # null: not decided
        ("reference_passed", pa.bool_(), True),
        ("spec", pa.string(), False),  # of the columns in nats: the headline divergence
        ("positions", pa.int32(), False),  # scored positions of the span that have a row
        ("unknown", pa.int32(), False),  # of them, those without a flip or a finite divergence
        ("flips", pa.int32(), True),
        ("strong_overturns", pa.int32(), True),
        ("mean_nats", pa.float64(), True),
        ("max_nats", pa.float64(), True),
        ("p95_nats", pa.float64(), True),  # of the span; null where too few values lie beyond it
        ("worst_range", pa.string(), False),  # of the window: the range with the largest p95; empty when withheld
        ("worst_p95_nats", pa.float64(), True),
        ("reason", pa.string(), False),  # why a figure is null; empty when none is
    ],
)
"""Drift where a task's answer stands, on the text's own history, beside whether the arm passed the task on its own."""

TASK_ORDER = _schema(
    "drift.task-order/1",
    [
        ("over", pa.string(), False),  # pairs: of task and arm; arms
        ("among", pa.string(), False),  # all tasks, or those that the reference passed
        ("outliers", pa.string(), False),
        ("figure", pa.string(), False),  # a column of TASK_DRIFT
        ("spec", pa.string(), False),  # of a figure in nats; empty for counts
        ("n", pa.int64(), False),  # pairs, or arms
        ("excluded", pa.int64(), False),  # pairs without a pass or fail, or without the figure
        ("tasks", pa.int64(), False),
        ("arms", pa.int64(), False),
        ("failed", pa.int64(), False),  # of the pairs
        ("tau", pa.float64(), True),  # Kendall's tau-b with failure: above 0, more drift goes with more failures
        ("tau_low", pa.float64(), True),
        ("tau_high", pa.float64(), True),
        ("tau_limit", pa.float64(), True),  # the farthest from 0, on the side of tau, that these ties allow
        ("spearman", pa.float64(), True),
        ("spearman_low", pa.float64(), True),
        ("spearman_high", pa.float64(), True),
        ("interval", pa.string(), False),
        ("clusters", pa.int64(), False),
        ("reason", pa.string(), False),  # why a value is absent or what to mind; empty when nothing
        ("says", pa.string(), False),  # what the row shows and what it does not, in words
    ],
)
"""Do the tasks and arms that drift more fail more? Rank correlations of drift figures with failure."""

DICTIONARY = _schema("drift.dictionary/1", [("bytes", pa.binary(), False)])
"""The bytes of each token, in the order of their ids: the table whose digest a protocol names."""

STREAMS = _schema(
    "drift.streams/1",
    [
        ("window", pa.string(), False),
        ("tokens", pa.list_(pa.int32()), False),  # the whole stream, what is not scored included
    ],
)
"""The token ids of each window of a protocol, in the protocol's order."""


_INDEXED_RUN = [
    ("run_id", pa.string(), False),
    ("state", pa.string(), False),  # what changes of a run once it has begun, in one text: see tracking.index_rows
    ("experiment_id", pa.string(), False),
    ("location", pa.string(), False),  # of its artifacts
    ("started_ms", pa.int64(), False),
    ("complete", pa.bool_(), False),
]

_INDEXED_ARM = pa.struct(
    [
        pa.field(name, kind, nullable=nullable)
        for name, kind, nullable in [
            *_INDEXED_RUN,
            ("arm", pa.string(), False),
            ("title", pa.string(), False),
            ("role", pa.string(), False),
            ("derivative", pa.string(), False),
            ("weights", pa.string(), False),
            ("weights_observed", pa.string(), False),
            ("kv", pa.string(), False),
            ("hardware", pa.string(), False),
            ("engine", pa.string(), False),
            ("settings", pa.string(), False),
            ("capture_id", pa.string(), False),
            ("weight_bytes", pa.int64(), True),
            ("floor_kind", pa.string(), False),
            ("rows_expected", pa.string(), False),
            ("reference", pa.string(), False),
            ("launch", pa.int32(), False),
            ("key", pa.map_(pa.string(), pa.string()), False),
        ]
    ]
)

INDEX = _schema(
    "drift.index/2",
    [
        *_INDEXED_RUN,
        ("experiment", pa.string(), False),
        ("protocol_name", pa.string(), False),
        ("protocol_version", pa.int32(), False),
        ("protocol_sha256", pa.string(), False),
        ("draft", pa.bool_(), False),
        ("status", pa.string(), False),
        ("reference", pa.string(), False),
        ("reference_capture_id", pa.string(), False),
        ("title", pa.string(), False),
        ("question", pa.string(), False),
        ("notes", pa.list_(pa.string()), False),
        ("outliers", pa.list_(pa.struct([("window", pa.string()), ("reason", pa.string())])), False),
        ("imported", pa.bool_(), False),
        ("reference_run", pa.string(), False),  # whose reference it compares with; empty for its own
        ("system", pa.string(), False),  # operating system of the machine; empty where the run does not say
        ("tool", pa.string(), False),  # version of drift that ran it; empty where the run does not say
        ("arms", pa.list_(_INDEXED_ARM), False),  # in the order in which they were begun
    ],
)
"""One row a campaign of a tracking store, newest first. A copy of tags: made anew from the store at any time."""

_WORD = pa.dictionary(pa.int32(), pa.string())
"""A text that many rows share."""

SUMMARY = _schema(
    "drift.summary/1",
    [
        ("campaign", _WORD, False),  # run id of the campaign
        ("run", _WORD, False),  # run id of the comparison that the figure is of
        ("started_ms", pa.int64(), False),  # of the campaign, since the epoch
        ("protocol", _WORD, False),
        ("version", pa.int32(), False),
        ("protocol_sha256", _WORD, False),
        ("complete", pa.bool_(), False),  # the campaign is; its comparison always is, else it has no figures here
        ("imported", pa.bool_(), False),
        ("arm", _WORD, False),
        ("role", _WORD, False),  # candidate, follow-up, floor, launch
        ("reference", _WORD, False),  # what it was compared with
        ("derivative", _WORD, False),
        ("weights", _WORD, False),
        ("weights_observed", _WORD, False),
        ("kv", _WORD, False),
        ("hardware", _WORD, False),  # as observed, what the backend says of its devices and drivers included
        ("engine", _WORD, False),  # as observed, with its build
        ("system", _WORD, False),  # operating system of the machine; empty where the campaign does not say
        ("tool", _WORD, False),  # version of drift that ran the campaign; empty where it does not say
        ("weight_bytes", pa.int64(), True),
        ("outliers", _WORD, False),  # with, without
        ("spec", _WORD, False),  # spec id as in FIGURES; determinism
        ("statistic", _WORD, False),  # as in FIGURES; of determinism rows.share, windows.share
        ("value", pa.float64(), True),  # null: withheld or not measured, reason says why
        ("n", pa.int64(), False),
        ("excluded", pa.int64(), False),
        ("state", _WORD, False),  # firm, indicative, withheld
        ("reason", _WORD, False),
        ("low", pa.float64(), True),
        ("high", pa.float64(), True),
        ("interval", _WORD, False),  # method, confidence and unit; empty when there is none
        ("named", _WORD, False),  # the range that a worst-range statistic names
        ("floor", _WORD, False),  # name of the floor that stands beside it; empty when none
        ("floor_value", pa.float64(), True),
        ("verdict", _WORD, False),
    ],
)
"""Headline figures of many campaigns over all scored positions: one row a comparison, set of windows and figure."""


SUBSAMPLE = _schema(
    "drift.subsample/1",
    [
        ("arm", pa.string(), False),
        ("outliers", pa.string(), False),  # with, without
        ("probe", pa.string(), False),  # phase: every stride-th position; random: as many, drawn
        ("stride", pa.int32(), False),
        ("probes", pa.int32(), False),  # samples that were simulated
        ("positions", pa.int64(), False),  # of the full rows
        ("sampled", pa.int64(), False),  # positions of a sample: the median of the samples
        ("spec", pa.string(), False),
        ("statistic", pa.string(), False),  # worst_range.p95, .mean, .rate; seen; max; mean; history_width
        ("named", pa.string(), False),  # the worst range, or the place of the largest value, of the full rows
        ("full_value", pa.float64(), True),  # of the full rows
        ("value", pa.float64(), True),  # a share of the samples, or a relative error or width
        ("low", pa.float64(), True),  # over the samples
        ("high", pa.float64(), True),
        ("not_nameable", pa.int32(), True),  # samples with too few positions of the worst range to name it
        ("another_named", pa.int32(), True),  # samples that name another range
        ("none_named", pa.int32(), True),  # samples that name no range, or see no position of the kind
        ("reason", pa.string(), False),  # why a value is absent or what to mind; empty when nothing
    ],
)
"""What samples of an arm's positions would have seen of what all of its positions show."""


class RowFlag:
    """Bits of the ``flags`` columns."""

    SHORT = 1  # fewer than K entries were returned
    UNHASHABLE = 2  # NaN or infinity: no hash
    PADDING = 4  # columns beyond the dictionary carried mass
    INFINITE_KL = 8  # P > 0 where Q = 0: counted, excluded from means
    NONFINITE = 16  # a logit was NaN or plus infinity, or all were minus infinity
    REFERENCE_TIED = 32  # more than one best token in the reference
    CANDIDATE_TIED = 64
    SUPPORT_COLLAPSE = 128  # fewer than two shared tokens: kl.topk-shared is null
    TAIL_FLOORED = 256  # the candidate's tail came out as nothing and was floored
    TEXT_AMBIGUOUS = 512  # entries were keyed by text, and some may have fallen together
    SENTINEL = 1024  # a log-probability that stands for "not known" was read: left out


_OLDER: dict[str, tuple[str, ...]] = {
    "drift.rows/2": ("drift.rows/1",),
    "drift.comparison/2": ("drift.comparison/1",),
    "drift.figures/2": ("drift.figures/1",),
    "drift.determinism/2": ("drift.determinism/1",),
    "drift.futures/2": ("drift.futures/1",),
    "drift.index/2": ("drift.index/1",),
}
"""Versions that differ from the newest by columns that it has in addition."""

_FILLED: dict[tuple[str, str], object] = {
    ("drift.figures/2", "borrowed"): False,
    ("drift.determinism/2", "row_hash"): "row.full",
    ("drift.index/2", "reference_run"): "",
}
"""What an older file means where the newest version has a column that is never null."""


def upgraded(table: pa.Table, wanted: pa.Schema) -> pa.Table | None:
    """A table of an older version with the columns of ``wanted``, nulls where it never had them; None for another."""
    version = version_of(wanted)
    if version_of(table.schema) not in _OLDER.get(version, ()):
        return None
    columns = {}
    for field in wanted:
        if field.name in table.column_names:
            columns[field.name] = table[field.name].cast(field.type)
        elif field.nullable:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
        else:
            filled = pa.scalar(_FILLED[version, field.name], field.type)
            columns[field.name] = pa.repeat(filled, table.num_rows)
    return pa.table(columns, schema=wanted)


def misfit(table: pa.Table, wanted: pa.Schema) -> str:
    """Why a table that carries the version of ``wanted`` is not of it; empty when it is."""
    missing = [name for name in wanted.names if name not in table.column_names]
    if missing:
        return f"the column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing"
    for field in wanted:
        found = table.schema.field(field.name).type
        if found != field.type:
            return f"column {field.name} of type {found}, not {field.type}"
    return ""
