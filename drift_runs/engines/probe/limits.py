"""Does the protocol fit, and is the engine the one that is declared?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer, ProbeTask
from drift_runs.engines.probe.asking import Asking, Refusal

CONTEXT_NAMES = (
    "context_tokens",
    "n_ctx",
    "max_model_len",
    "context_length",
    "context",
    "max_total_tokens",
    "max_context_length",
    "max_seq_len",
)
"""What servers call their context, in the order in which they are believed."""
_TRY_TOKENS = 4096
"""A longest window up to it is sent where the engine does not say its context."""
_ALSO_CALLED = {
    "kv": (
        "kv",
        "kv_type",
        "kv_cache_dtype",
        "cache_dtype",
        "kv_cache_type",
        "cache_type_k",
        "cache_type_v",
        "type_k",
        "type_v",
    ),
    "weights": ("weights", "ftype", "model_ftype", "file_type", "quantization", "quantize"),
    "dtype": ("dtype", "torch_dtype", "model_dtype"),
}
_TYPES = {
    "float32": "f32", "fp32": "f32", "f32": "f32", "all f32": "f32",
    "float16": "f16", "fp16": "f16", "half": "f16", "f16": "f16", "mostly f16": "f16",
    "bfloat16": "bf16", "bf16": "bf16", "mostly bf16": "bf16",
    "fp8": "fp8", "float8": "fp8", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2",
}  # fmt: skip
_BLOCK_TYPE = re.compile(r"(?:mostly )?((?:i?q\d_\w+|q\d_\w+|mxfp4|nvfp4))(?: - (small|medium|large))?")


def ask_limits(asking: Asking) -> list[Answer]:
    return [_context(asking), _declared(asking)]


class SaidContext(NamedTuple):
    """What an engine calls its context, and how many tokens it says that it holds."""

    name: str
    tokens: int


def said_context(said: Mapping[str, str]) -> SaidContext | None:
    plain = by_plain_name(said)
    for name in CONTEXT_NAMES:
        value = plain.get(name, "").replace(",", "").replace("_", "").strip()
        if value.isdecimal() and int(value) > 0:
            return SaidContext(name, int(value))
    return None


def room_tokens(asking: Asking) -> int:
    """Tokens that fit, by what the engine says and what it was opened with."""
    said = asking.said()
    found = None if isinstance(said, Refusal) else said_context(said)
    return asking.task.context_tokens if found is None else min(asking.task.context_tokens, found.tokens)


def _context(asking: Asking) -> Answer:
    task = asking.task
    need, said = task.longest_tokens + beside_tokens(asking), asking.said()
    found = None if isinstance(said, Refusal) else said_context(said)
    largest = max((len(window.tokens) for window in task.windows), default=0)
    if found is not None:
        name, tokens = found
        asking.measured["context_tokens"] = float(tokens)
        verdict = YES if tokens >= need else NO
        evidence = (
            f"{name} is {tokens:,}; the longest window takes {need:,}, the protocol declares {task.context_tokens:,}"
        )
        if verdict == YES and tokens < max(largest, need) + task.generation_tokens and task.needs.generation:
            evidence += f"; what is written behind it ends before its {task.generation_tokens:,} tokens"
    elif need > _TRY_TOKENS or not asking.looked_at():
        verdict, evidence = OPEN, f"the engine does not say it, and the longest window takes {need:,} tokens"
    else:
        window = max(task.windows, key=lambda window: window.positions[-1] if window.positions else 0)
        last = window.positions[-1]
        rows = asking.rows(window.tokens[: last + 1], [last], top_k=min(asking.top_k, 5))
        verdict = NO if isinstance(rows, Refusal) else YES
        evidence = str(rows) if isinstance(rows, Refusal) else f"the longest window, {need:,} tokens, came through"
    return Answer(
        question="context",
        title="Does the longest window fit into the engine's context?",
        answer=verdict,
        evidence=evidence,
        needed=task.needs.scoring,
        way_round="start the server with a longer context (llama_server: -c, per slot; vLLM: --max-model-len), or "
        "shorten the windows in a new version of the protocol",
    )


def beside_tokens(asking: Asking) -> int:
    """Tokens that the longest window needs room for beside its history: a server generates one behind what it is sent,
    and what it is sent to tell a prompt's log-probabilities holds the last token too."""
    if asking.in_process:
        return 0
    return 2 if asking.task.path_shape == "prefill" else 1


def _declared(asking: Asking) -> Answer:
    task, said = asking.task, asking.said()
    verdict, evidence = OPEN, str(said) if isinstance(said, Refusal) else "the engine says nothing of what is declared"
    if not isinstance(said, Refusal):
        held, against = _held(task_facts(task), said)
        if against:
            verdict, evidence = NO, "; ".join(against)
        elif held:
            verdict, evidence = YES, "; ".join(held)
    changed = _changed(asking, said)
    if changed:
        verdict, evidence = NO, changed
    return Answer(
        question="declared",
        title="Is the engine what the protocol and drift.toml declare?",
        answer=verdict,
        evidence=evidence,
        # Few servers say their types. What is said and contradicts is another arm than the one that is declared.
        needed=verdict == NO,
        way_round="start the server as it is declared, or declare what runs in a new version of the protocol"
        if verdict == NO
        else "keep the command that started the server: settings = { server = … } holds it",
    )


def task_facts(task: ProbeTask) -> dict[str, str]:
    """What is declared, by the name that it is declared under."""
    facts = {"weights": task.weights, "kv": task.kv, "dtype": task.dtype}
    return {name: value for name, value in facts.items() if value} | dict(task.server)


def _held(facts: Mapping[str, str], said: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What is said as declared, and what is said otherwise. Words that are not known to mean a type say nothing."""
    plain = by_plain_name(said)
    held, against = [], []
    for name, declared in facts.items():
        key = _plain(name)
        for other in _ALSO_CALLED.get(key, (key,)):
            if other not in plain:
                continue
            value = plain[other]
            same = _same(declared, value, is_type=key in _ALSO_CALLED)
            if same is None:
                continue
            (held if same else against).append(f"{other} is {value}" + ("" if same else f", declared is {declared}"))
    return held, against


def _same(declared: str, said: str, *, is_type: bool) -> bool | None:
    if not is_type:
        return _value(declared) == _value(said)
    here, there = type_of(declared), type_of(said)
    return None if here is None or there is None else here == there


def type_of(text: str) -> str | None:
    """A type of weights or of a cache in one spelling; None for words that name none."""
    plain = " ".join(text.lower().split()).removeprefix("torch.")
    if plain in _TYPES:
        return _TYPES[plain]
    found = _BLOCK_TYPE.fullmatch(plain)
    if found is None:
        return None
    size = {"small": "_s", "medium": "_m", "large": "_l", None: ""}[found[2]]
    return found[1] + (size if not found[1].endswith(size) or not size else "")


def _value(text: str) -> str:
    plain = text.strip().lower()
    plain = {"true": "1", "on": "1", "yes": "1", "enabled": "1", "false": "0", "off": "0", "no": "0"}.get(plain, plain)
    try:
        return repr(float(plain))
    except ValueError:
        return plain


def _plain(name: str) -> str:
    """``--kv-cache-dtype`` and ``kv_cache_dtype`` are one option."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def by_plain_name(said: Mapping[str, str]) -> dict[str, str]:
    """What is said by plain name, ``model.meta.n_ctx`` as ``n_ctx`` too."""
    short = {_plain(name.rpartition(".")[2]): value for name, value in said.items()}
    return short | {_plain(name): value for name, value in said.items()}


def _changed(asking: Asking, first: Mapping[str, str] | Refusal) -> str:
    """Whether the model changed while it was asked; the last question of a probe."""
    if asking.in_process or isinstance(first, Refusal):
        return ""
    last = asking.said_now()
    if isinstance(last, Refusal):
        return ""
    for name in sorted(first.keys() | last.keys()):
        key = _plain(name)
        if first.get(name) != last.get(name) and any(
            word in key for word in ("model", "file", "build", "version", "dtype")
        ):
            return (
                f"{name} was {first.get(name)} at first and is {last.get(name)} now: another model behind the address"
            )
    return ""
