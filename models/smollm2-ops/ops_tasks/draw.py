"""Draw tasks: the one place that knows all families and how often each is trained."""

from __future__ import annotations

import zlib

import numpy as np

from ops_tasks import calls, commands, configs
from ops_tasks.tasks import Split, Task
from ops_tasks.values import Values

TRAINED_SHARES = {
    "tool-call": 0.16,
    "multi-tool": 0.13,
    "recovery": 0.10,
    "no-call": 0.04,
    "question": 0.08,
    "json": 0.10,
    "literal-copy": 0.11,
    "cli": 0.07,
    "sql": 0.07,
    "container": 0.06,
    "shell": 0.08,
}
"""Share of the drawn conversations; plain chat comes on top, as replay of what the base model writes."""

_SPLITS: tuple[Split, ...] = ("train", "values", "templates")
_TEMPLATES = {
    split: tuple(getattr(configs, which)) + tuple(getattr(commands, which))
    for split, which in (("train", "TRAIN"), ("values", "TRAIN"), ("templates", "HELD_OUT"))
}


def draw(split: Split, seed: int, index: int, kind: str = "") -> Task:
    """Task ``index`` of a split: the same for the same arguments on every machine.

    ``kind`` draws from one kind only; without it kinds come in their trained shares.
    """
    rng = np.random.default_rng([seed, _SPLITS.index(split), index, zlib.crc32(kind.encode())])
    kind = kind or str(rng.choice(list(TRAINED_SHARES), p=list(TRAINED_SHARES.values())))
    values = Values(rng, held_out=split != "train")
    if kind in calls.BY_KIND:
        return calls.BY_KIND[kind](values, split)
    while True:  # templates are few and carry their kind in what they return
        task = values.pick(_TEMPLATES[split])(values)
        if task.kind == kind:
            return task
