"""Make the token streams of a recipe: authored texts are tokenised, the others are written by the reference, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drift_runs.authoring.loops import loop_report
from drift_runs.authoring.recipe import Generate, Recipe, RecipeWindow
from drift_runs.authoring.sampling import continue_from, window_generator
from drift_runs.authoring.source import Rendered, render
from drift_runs.authoring.spans import TokenSpan, token_spans
from drift_runs.errors import ContextOverflow, ProtocolError
from drift_runs.protocol.model import STREAM_SCHEMA, Stream
from drift_runs.protocol.streams import decode_text


class Reference(Protocol):
    """The part of an engine that recording needs."""

    def token_bytes(self) -> list[bytes]: ...

    def tokenize(self, text: str, *, special: bool = True) -> list[int]: ...

    def ends_generation(self, token: int) -> bool: ...

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]: ...

    def append(self, token: int) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A window with its stream and the ranges in it."""

    window: RecipeWindow
    stream: Stream
    spans: tuple[TokenSpan, ...]


class Recorder:
    """Records the windows of one recipe with one open reference.

    ``provenance`` goes into each generated stream as it is (weights digest, engine, build).
    """

    def __init__(
        self, recipe: Recipe, folder: Path, engine: Reference, provenance: dict[str, str | int | float]
    ) -> None:
        self.recipe = recipe
        self.sources = folder / recipe.sources
        self.engine = engine
        self.provenance = provenance
        self.token_bytes = engine.token_bytes()

    def record(self, window: RecipeWindow, progress: Callable[[int], None] = lambda _done: None) -> Recorded:
        """Raises ``ProtocolError`` for a faulty source, an output that is too short, or a loop in a scored span."""
        rendered = self._render(window)
        tokens = self.engine.tokenize(rendered.text)
        if window.generate is None:
            spans = token_spans(rendered.text, tokens, self.token_bytes, rendered.marks, where=window.source)
            recorded: dict[str, str | int | float] = {"source": window.source}
            prompt_tokens = 0
        else:
            # Only so that a text which the tokenizer changes is found before minutes of generation.
            token_spans(rendered.text, tokens, self.token_bytes, (), where=window.source)
            prompt_tokens = len(tokens)
            tokens = tokens + self._generate(window, window.generate, tokens, progress)
            spans = generated_span(window.generate, prompt_tokens, len(tokens))
            recorded = {"source": window.source, **self.provenance, **how(window.generate)}
        if len(tokens) > self.recipe.context_tokens:
            raise ContextOverflow(
                f"{len(tokens)} tokens",
                where=f"window {window.name}",
                expected=f"at most {self.recipe.context_tokens} (context_tokens)",
            )
        for span in spans:
            refuse_loop(window.name, span, tokens)
        stream = Stream(
            schema_=STREAM_SCHEMA,
            name=window.name,
            tokens=tuple(tokens),
            text=decode_text(tokens, self.token_bytes),
            source="authored" if window.generate is None else "generated",
            prompt_tokens=prompt_tokens,
            recorded=recorded,
            tools=rendered.tools,
        )
        return Recorded(window=window, stream=stream, spans=spans)

    def spans_of(self, window: RecipeWindow, stream: Stream) -> tuple[TokenSpan, ...]:
        """Ranges of a stream that was recorded before."""
        if window.generate is not None:
            return generated_span(window.generate, stream.prompt_tokens, len(stream.tokens))
        rendered = self._render(window)
        return token_spans(rendered.text, stream.tokens, self.token_bytes, rendered.marks, where=window.source)

    def _render(self, window: RecipeWindow) -> Rendered:
        rendered = render(self.sources / window.source)
        if rendered.prompt_only != (window.generate is not None):
            raise ProtocolError(
                "the source and the recipe disagree on who writes the text",
                where=f"window {window.name}",
                expected="'%% generate' in the source and [windows.generate] in the recipe, or neither",
            )
        return rendered

    def _generate(
        self, window: RecipeWindow, how_to: Generate, prompt: list[int], progress: Callable[[int], None]
    ) -> list[int]:
        ends = [token for token in range(len(self.token_bytes)) if self.engine.ends_generation(token)]
        masked = {
            token
            for token, data in enumerate(self.token_bytes)
            if any(text.encode("utf-8") in data for text in how_to.never)
        }
        if how_to.end_tokens == "masked":
            masked.update(ends)
        written = continue_from(
            self.engine,
            prompt,
            window_generator(how_to.seed, window.name),
            most_tokens=how_to.tokens,
            temperature=how_to.temperature,
            top_p=how_to.top_p,
            masked=masked,
            ends=(lambda token: token in ends) if how_to.end_tokens == "stop" else (lambda _token: False),
            progress=progress,
        )
        if len(written) < how_to.at_least:
            raise ProtocolError(
                f"the reference wrote {len(written)} tokens",
                where=f"window {window.name}",
                expected=f"{how_to.at_least} or more (generate.at_least)",
                todo="take another seed or another prompt",
            )
        return written


def generated_span(how_to: Generate, prompt_tokens: int, tokens: int) -> tuple[TokenSpan, ...]:
    """The one range that a generated output is."""
    return (TokenSpan(how_to.kind, how_to.range, prompt_tokens, tokens),)


def how(how_to: Generate) -> dict[str, str | int | float]:
    """How a text was drawn, for the stream file; what is not used is left out."""
    said: dict[str, str | int | float] = {"mode": "sampled" if how_to.temperature else "greedy"}
    if how_to.temperature:
        said |= {"temperature": how_to.temperature, "top_p": how_to.top_p, "seed": how_to.seed}
    said["end_tokens"] = how_to.end_tokens
    if how_to.never:
        said["never"] = " ".join(how_to.never)
    return said


def refuse_loop(window: str, span: TokenSpan, tokens: Sequence[int]) -> None:
    """Raise ``ProtocolError`` when a scored span repeats itself."""
    report = loop_report(tokens[span.start : span.end])
    if report.is_loop:
        raise ProtocolError(
            f"the range repeats itself (a block of {report.period} tokens over {report.stretch}, "
            f"{report.distinct_share:.0%} of the 8-grams distinct)",
            where=f"window {window}, range {span.name}",
            expected="no repetition loop in a scored span",
            todo="take another seed or another prompt",
        )
