"""``contexts``: means of the full-vocabulary KL by context, one JSON file a candidate. No position is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.source import Foreign, Source, parse_json, read_source
from drift_runs.measure.sentinels import LARGEST_KL_NATS
from drift_runs.schema import CONTEXTS

FORMAT = "contexts"
KIND = "contexts"
HELP = "means of a candidate's full-vocabulary KL by context: JSON with clusters, strata and scored positions"
EQUAL_FACTS = (
    "vocabulary",
    "filter",
    "suite tokens sha256",
    "reference index sha256",
    "reference config sha256",
    "head sha256",
)
CONVENTION = "means over all scored positions of a context: which positions those are cannot be read from the file"

ROUNDING = -1e-5
"""Storage in 16 bits can put a mean this far below zero; see METRICS, ``kl.full``."""
HEADLINE = 1e-6
"""Relative: how far the file's own totals may lie from what its contexts give."""


class Context(Foreign):
    index: Annotated[int, Field(ge=0, lt=2**53)]
    source_cluster: str
    stratum: str = ""
    positions_scored: Annotated[int, Field(ge=1, lt=2**53)]
    mean_kld: Annotated[float, Field(ge=ROUNDING, le=LARGEST_KL_NATS)]
    median_kld: Annotated[float, Field(ge=ROUNDING, le=LARGEST_KL_NATS)] | None = None
    top1_agreement: Annotated[float, Field(ge=0, le=1)] | None = None


class Identity(Foreign):
    model_path: str | None = None
    index_sha256: str | None = None
    config_sha256: str | None = None


class Parent(Foreign):
    suite_token_sha256: str | None = None
    context_length: int | None = None


class Suite(Foreign):
    suite_token_sha256: str | None = None
    parent: Parent | None = None


class Document(Foreign):
    schema_: Annotated[str, Field(alias="schema")] = ""
    candidate: str = ""
    label: str = ""
    filter: str | None = None
    vocab_size: int | None = None
    head_sha256: str | None = None
    reference_identity: Identity = Identity()
    candidate_identity: Identity = Identity()
    suite: Suite = Suite()
    token_mean_kld: float | None = None
    top1_agreement: float | None = None
    scored_positions: int | None = None
    per_context_all: list[Context]


def read(path: Path) -> ImportedFile:
    """A candidate's contexts, schema ``CONTEXTS``, in the file's order; totals that contradict them are refused."""
    source = read_source(path)
    document = parse_json(source, Document)
    rows = document.per_context_all
    if not rows:
        source.refuse("no contexts", at="per_context_all")
    seen: set[int] = set()
    for place, row in enumerate(rows):
        at = f"per_context_all[{place}] index {row.index}"
        if row.index in seen:
            source.refuse("the index is given to two contexts", at=at)
        if not row.source_cluster:
            source.refuse("source_cluster is empty", at=at, expected="the document that the context was cut from")
        seen.add(row.index)
    check_totals(source, document)
    table = pa.table(
        {
            "context": [str(row.index) for row in rows],
            "cluster": [row.source_cluster for row in rows],
            "group": [row.stratum for row in rows],
            "positions": [row.positions_scored for row in rows],
            "mean_nats": [row.mean_kld for row in rows],
            "median_nats": [row.median_kld for row in rows],
            "top1_agreement": [row.top1_agreement for row in rows],
        },
        schema=CONTEXTS,
    )
    below = sum(row.mean_kld < 0 for row in rows)
    notes = ["only means by context are known: no quantile, tail or position can be given"]
    if below:
        notes.append(f"means below 0, as 16-bit storage can leave them, kept as they are: {below}")
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=path,
        sha256=source.sha256,
        table=table,
        top_k=None,
        convention=CONVENTION,
        cluster="document",
        windows=tuple(
            ImportedWindow(name=str(row.index), document=row.source_cluster, group=row.stratum) for row in rows
        ),
        facts=facts_of(document),
        notes=tuple(notes),
        divergence="kl.full",
    )


def check_totals(source: Source, document: Document) -> None:
    """The file's own totals must follow from its contexts: a file that was cut or joined wrongly is seen here."""
    rows = document.per_context_all
    positions = sum(row.positions_scored for row in rows)
    if document.scored_positions is not None and document.scored_positions != positions:
        source.refuse(
            f"scored_positions is {document.scored_positions:,}, and the contexts have {positions:,}",
            at="scored_positions",
        )
    totals = {"token_mean_kld": [row.mean_kld for row in rows], "top1_agreement": [row.top1_agreement for row in rows]}
    for name, values in totals.items():
        said = getattr(document, name)
        if said is None or None in values:
            continue
        found = math.fsum(value * row.positions_scored for value, row in zip(values, rows, strict=True)) / positions
        if not math.isclose(said, found, rel_tol=HEADLINE, abs_tol=1e-12):
            source.refuse(f"{name} is {said:.9g}, and the contexts give {found:.9g}", at=name)


def facts_of(document: Document) -> dict[str, str]:
    parent = document.suite.parent
    facts = {
        "schema": document.schema_,
        "candidate": document.candidate,
        "label": document.label,
        "filter": document.filter,
        "vocabulary": document.vocab_size,
        "suite tokens sha256": document.suite.suite_token_sha256 or (parent.suite_token_sha256 if parent else None),
        "context tokens": parent.context_length if parent else None,
        "reference": document.reference_identity.model_path,
        "reference index sha256": document.reference_identity.index_sha256,
        "reference config sha256": document.reference_identity.config_sha256,
        "head sha256": document.head_sha256,
        "candidate model": document.candidate_identity.model_path,
        "candidate index sha256": document.candidate_identity.index_sha256,
    }
    return {key: str(value) for key, value in facts.items() if value not in (None, "")}
