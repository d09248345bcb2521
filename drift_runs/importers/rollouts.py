"""``rollouts``: greedy continuations of a list of prompts, one JSON file an arm, one or more runs of each prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from drift_runs.importers.base import ImportedFile
from drift_runs.importers.source import Foreign, parse_json, read_source
from drift_runs.measure.sentinels import WORDS, is_sentinel
from drift_runs.schema import ROLLOUTS

FORMAT = "rollouts"
KIND = "rollouts"
HELP = "free-running greedy continuations: JSON with runs of prompts, token texts and log-probabilities"
EQUAL_FACTS = ("tokens asked",)
CONVENTION = "step i is the i-th token after the prompt, counted from 0; positions in a context are not known"


class Rollout(Foreign):
    prompt: str
    text: str | None = None
    tokens: list[str]
    token_ids: list[Annotated[int, Field(ge=0, lt=2**31)]] | None = None
    token_logprobs: list[Annotated[float, Field(le=1e-3)] | None] | None = None


class Document(Foreign):
    label: str = ""
    tokens: Annotated[int, Field(ge=1, lt=2**31)]
    seed: int | None = None
    runs: list[list[Rollout]]


def read(path: Path) -> ImportedFile:
    """One arm's rollouts, schema ``ROLLOUTS``; ``ImportFileError`` with file, run and prompt for what does not fit."""
    source = read_source(path)
    document = parse_json(source, Document)
    if not document.runs or not all(document.runs):
        source.refuse("no rollouts" if not document.runs else "a run without rollouts", at="runs")
    columns: dict[str, list] = {name: [] for name in ROLLOUTS.names}
    shorter = unknown = respelled = 0
    for run, rollouts in enumerate(document.runs):
        seen: set[str] = set()
        for index, rollout in enumerate(rollouts):
            at = f"runs[{run}][{index}] {rollout.prompt[:40]!r}"
            if rollout.prompt in seen:
                source.refuse("the prompt stands twice in a run", at=at)
            seen.add(rollout.prompt)
            length = len(rollout.tokens)
            if not 1 <= length <= document.tokens:
                source.refuse(
                    f"{length} tokens", at=at, expected=f"1 to {document.tokens}, as the file says at 'tokens'"
                )
            for name, values in (("token_ids", rollout.token_ids), ("token_logprobs", rollout.token_logprobs)):
                if values is not None and len(values) != length:
                    source.refuse(f"{len(values)} {name} of {length} tokens", at=at)
            logprobs = rollout.token_logprobs
            if logprobs is not None:
                logprobs = [None if value is None or is_sentinel(value) else value for value in logprobs]
                unknown += logprobs.count(None)
            shorter += length < document.tokens
            respelled += rollout.text is not None and "".join(rollout.tokens) != rollout.text
            columns["prompt"].append(rollout.prompt)
            columns["run"].append(run)
            columns["tokens"].append(rollout.tokens)
            columns["token_ids"].append(rollout.token_ids)
            columns["logprobs"].append(logprobs)
    facts = {
        "label": document.label,
        "seed": "" if document.seed is None else str(document.seed),
        "tokens asked": str(document.tokens),
        "runs": str(len(document.runs)),
    }
    notes = []
    if any(ids is None for ids in columns["token_ids"]):
        notes.append("tokens are known by their text alone: two ids with one text count as equal")
    if shorter:
        notes.append(f"rollouts that end before {document.tokens} tokens: {shorter}")
    if unknown:
        notes.append(f"log-probabilities that are missing or stand for 'not known' ({WORDS}), left out: {unknown}")
    if respelled:
        notes.append(f"rollouts whose token texts do not join to their text: {respelled}")
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=path,
        sha256=source.sha256,
        table=pa.table(columns, schema=ROLLOUTS),
        top_k=None,
        convention=CONVENTION,
        cluster="prompt",
        facts={key: value for key, value in facts.items() if value},
        notes=tuple(notes),
        divergence="rollout.exact",
    )
