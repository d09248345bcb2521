"""What a protocol says about generation: roots and their futures, rollouts, sampled decoding, tasks.

A table that is absent is a lane that is not run.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from drift_runs.protocol.part import Digest, Name, Part

Syntax = Literal["hermes", "openai-json", "mistral", "llama3", "fenced-json", "qwen3-coder"]
"""How a model writes tool calls. ``hermes``: ``<tool_call>{json}</tool_call>``, also Qwen's; ``openai-json``: a JSON
array of ``{"function": {"name", "arguments"}}``; ``mistral``: ``[TOOL_CALLS]``; ``llama3``: python tag or bare JSON;
``fenced-json``: a fenced block of JSON; ``qwen3-coder``: ``<function=name><parameter=key>`` in ``<tool_call>``."""

Grammar = Literal["tools", "json"]
"""What a constrained decode may write. ``tools``: once a call is open, a call that fits a schema of the window's tools;
``json``: one JSON value."""


class Chat(Part):
    """How turns are written. ``{text}`` stands for what is said; everything else is taken as it is, markup included."""

    assistant: Annotated[str, Field(min_length=1)]
    """What a turn of the assistant begins behind, for instance ``<|im_start|>assistant`` and a line break."""
    ends: Annotated[tuple[str, ...], Field(min_length=1)]
    """Markup that ends a turn, as the dictionary writes it, for instance ``<|im_end|>``: one token each."""
    tool_turn: Annotated[str, Field(pattern=r"\{text\}")]
    """From behind the token that ended the assistant's turn to where the assistant's next turn begins: a tool's result
    between them."""
    user_turn: Annotated[str, Field(pattern=r"\{text\}")]
    """A prompt of a rollout, up to where the assistant's turn begins."""
    system_turn: Annotated[str, Field(pattern=r"^$|\{text\}")] = ""
    """What stands in front of ``user_turn`` for a prompt that has a system text; empty: no prompt may have one."""


class Branches(Part):
    """Which flips are followed, and how far."""

    roots: Literal["every-flip", "strong-first"] = "strong-first"
    """``strong-first``: every strong overturn, then ordinary flips drawn with ``seeds.roots`` in each range."""
    per_range: Annotated[int, Field(ge=0)] = 4
    """Ordinary flips that are drawn in each range; the scored positions outside all ranges count as one."""
    cap: Annotated[int, Field(ge=1)] = 60
    """Roots of an arm at most."""
    horizon_tokens: Annotated[int, Field(ge=16)] = 256
    """Tokens that a future may write, all turns together; what an environment answers does not count."""
    turns: Annotated[int, Field(ge=1, le=16)] = 1
    """Turns of the assistant at most; more than one needs an environment for the window."""
    syntax: Syntax = "hermes"
    sql_dialect: str = "sqlite"
    """Of sqlglot: the dialect that SQL in a future is parsed in."""


class ScriptedResult(Part):
    """One call and what its tool answers."""

    tool: str
    arguments: dict[str, Any]
    """Compared by value."""
    result: str


class Environment(Part):
    """What tools answer in futures of some windows. Nothing is run: it is a table."""

    name: Name
    windows: tuple[Name, ...]
    recorded: bool = False
    """The calls of the window's own stream are answered as they are answered there."""
    results: tuple[ScriptedResult, ...] = ()
    otherwise: Annotated[str, Field(min_length=1)]
    """The answer to any other call: an error, in the words of the tool."""


class Rollouts(Part):
    """Greedy rollouts from a panel of prompts: Divergence-300 @32 and its relatives."""

    prompts: str
    """Path of the panel's file (schema ``drift.prompts/1``), relative to the protocol file."""
    ids: str
    """Path of the prompts' token ids (schema ``drift.prompt-ids/1``), which ``drift record`` writes: what is run."""
    subset: Literal["all", "quick"] = "all"
    tokens: Annotated[int, Field(ge=1)] = 32
    """Every rollout has as many: the end token is an ordinary token."""


class Sampled(Part):
    """Decoding at a temperature above 0 with the same noise on both sides."""

    temperatures: Annotated[tuple[Annotated[float, Field(gt=0, le=10)], ...], Field(min_length=1)]
    draws: Annotated[int, Field(ge=1, le=64)] = 3
    """Noises, each from ``seeds.sampling`` and its number."""
    prompts: Literal["all", "quick"] = "quick"
    """Of the panel of ``rollouts``."""
    tokens: Annotated[int, Field(ge=1)] = 32


class Task(Part):
    """A checker of a free-running answer: what an arm writes from ``tokens[:at]`` on, up to its end of turn.

    What is expected is the window's own text at the answer ``answer``, or stands here. Nothing that an arm wrote is
    run, but SQL in a database in memory that holds ``fixture`` and nothing else.
    """

    name: Name
    window: Name
    at: Annotated[int, Field(ge=1)]
    """Position of the first token that is written."""
    check: Literal["calls", "literals", "pattern", "sql", "json"]
    """``calls``: the same calls by value, in any order; ``literals``: every one stands in the answer as a word of its
    own; ``pattern``: a regular expression is found; ``sql``: its rows are those of the expected query; ``json``: equal
    by value."""
    answer: Name | Literal[""] = ""
    """An answer of the same window whose text is the expected one: for ``calls``, ``json`` and ``sql``."""
    expected: tuple[str, ...] = ()
    """Texts: literals, one pattern, one query, one JSON value, or calls in the syntax of ``branches``."""
    fixture: str = ""
    """SQL that makes the tables: for ``sql``."""
    ordered: bool = False
    """For ``sql``: the order of the rows counts."""
    horizon_tokens: Annotated[int, Field(ge=1)] = 160


class Constrained(Part):
    """An arm whose generation is held to a grammar. Teacher forcing does not see it: it has no capture of its own."""

    name: Name
    arm: Name
    grammar: Grammar
    title: str = ""


class Prompt(Part):
    """One prompt of a panel."""

    name: Name
    kind: Literal["terminal", "software", "mathematics", "non-latin", "long-document", "tool-use"]
    quick: bool = False
    """Belongs to the quick subset."""
    system: str = ""
    text: Annotated[str, Field(min_length=1)]


class Prompts(Part):
    """A panel of prompts in a file of its own."""

    schema_: Annotated[Literal["drift.prompts/1"], Field(alias="schema")]
    name: Name
    title: str
    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1)]


class PromptIds(Part):
    """A panel of prompts as one dictionary's token ids, turns and markup included: where an assistant's turn begins."""

    schema_: Annotated[Literal["drift.prompt-ids/1"], Field(alias="schema")]
    prompts_sha256: Digest
    """Of the panel's file."""
    dictionary_sha256: Digest
    ids: dict[Name, tuple[Annotated[int, Field(ge=0)], ...]]
    """By name of prompt, all of the panel."""
