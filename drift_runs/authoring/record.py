"""Make the token streams of a recipe: authored texts are tokenised, the others are written by the reference, once.

Expected answers are held against the reference too: it must choose each of their tokens itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from drift_runs.authoring.passing import first_miss
from drift_runs.authoring.recipe import Generate, Recipe, RecipeWindow
from drift_runs.authoring.sampling import continue_from, window_generator
from drift_runs.authoring.source import Rendered, render
from drift_runs.authoring.spans import TokenSpan, decode, token_spans
from drift_runs.engines.base import ScoredBlock
from drift_runs.errors import ContextOverflow, ProtocolError
from drift_runs.generate.answer_forms import TURN_END, expected_of, form_problem
from drift_runs.generate.loops import loop_report
from drift_runs.protocol.model import STREAM_SCHEMA, Stream
from drift_runs.protocol.streams import decode_text


class Reference(Protocol):
    """The part of an engine that recording needs."""

    def token_bytes(self) -> list[bytes]: ...

    def tokenize(self, text: str, *, special: bool = True) -> list[int]: ...

    def ends_generation(self, token: int) -> bool: ...

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]: ...

    def append(self, token: int) -> NDArray[np.float32]: ...

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]: ...


class Layout(NamedTuple):
    """What of a stream is a range, what is an expected answer, and what is scored."""

    spans: tuple[TokenSpan, ...]
    answers: tuple[TokenSpan, ...]
    scored: tuple[tuple[int, int], ...]
    """In order and apart: of a range with answers the answers alone, of another one all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A window with its stream and what is in it."""

    window: RecipeWindow
    stream: Stream
    layout: Layout


class Recorder:
    """Records the windows of one recipe with one open reference.

    ``provenance`` goes into each generated stream as it is (weights digest, engine, build).
    """

    def __init__(
        self, recipe: Recipe, folder: Path, engine: Reference, provenance: dict[str, str | int | float]
    ) -> None:
        self.recipe = recipe
        self.sources = folder / recipe.sources
        self.roles = {panel.name: panel.role for panel in recipe.panels}
        self.engine = engine
        self.provenance = provenance
        self.token_bytes = engine.token_bytes()

    def record(self, window: RecipeWindow, progress: Callable[[int], None] = lambda _done: None) -> Recorded:
        """Raises ``ProtocolError`` for a faulty source, an output that is too short, an answer that has not its form
        or that the reference does not pass, or a loop in what is scored."""
        rendered = self._render(window)
        tokens = self.engine.tokenize(rendered.text)
        writes = self.roles.get(window.panel) == "generated"
        if window.generate is None:
            layout = self._marked(window, rendered, tokens)
            recorded: dict[str, str | int | float] = {"source": window.source}
            prompt_tokens = 0
            if writes:
                self._refuse_unanswered(window, layout)
                prompt_tokens = layout.scored[0][0]
                recorded |= {**self.provenance, "mode": "passed", "answers": len(layout.answers)}
        else:
            # Only so that a text which the tokenizer changes is found before minutes of generation.
            token_spans(rendered.text, tokens, self.token_bytes, (), where=window.source)
            prompt_tokens = len(tokens)
            tokens = tokens + self._generate(window, window.generate, tokens, progress)
            layout = generated_layout(window.generate, prompt_tokens, len(tokens))
            recorded = {"source": window.source, **self.provenance, **how(window.generate)}
        if len(tokens) > self.recipe.context_tokens:
            raise ContextOverflow(
                f"{len(tokens)} tokens",
                where=f"window {window.name}",
                expected=f"at most {self.recipe.context_tokens} (context_tokens)",
            )
        for span in layout.spans:
            refuse_loop(window.name, span, scored_tokens(layout, span, tokens))
        for answer in layout.answers:
            self._refuse_form(window, answer, tokens, rendered.tools)
        if window.must_pass and layout.answers:
            self._refuse_miss(window, layout, tokens)
        stream = Stream(
            schema_=STREAM_SCHEMA,
            name=window.name,
            tokens=tuple(tokens),
            text=decode_text(tokens, self.token_bytes),
            source="generated" if writes else "authored",
            prompt_tokens=prompt_tokens,
            recorded=recorded,
            tools=rendered.tools,
        )
        return Recorded(window=window, stream=stream, layout=layout)

    def layout_of(self, window: RecipeWindow, stream: Stream) -> Layout:
        """Ranges and answers of a stream that was recorded before."""
        if window.generate is not None:
            return generated_layout(window.generate, stream.prompt_tokens, len(stream.tokens))
        return self._marked(window, self._render(window), stream.tokens)

    def _marked(self, window: RecipeWindow, rendered: Rendered, tokens: Sequence[int]) -> Layout:
        """What the source marks, in tokens."""
        text = rendered.text
        spans = token_spans(text, tokens, self.token_bytes, rendered.marks, where=window.source)
        answers = token_spans(text, tokens, self.token_bytes, rendered.answers, where=window.source, noun="answer")
        scored: list[tuple[int, int]] = []
        for span in spans:
            inside = [(one.start, one.end) for one in answers if span.start <= one.start and one.end <= span.end]
            scored += inside or [(span.start, span.end)]
        return Layout(spans, answers, tuple(sorted(scored)))

    def _refuse_unanswered(self, window: RecipeWindow, layout: Layout) -> None:
        for span in layout.spans:
            if not any(span.start <= answer.start and answer.end <= span.end for answer in layout.answers):
                raise ProtocolError(
                    f"the reference writes nothing in range {span.name!r}",
                    where=f"window {window.name}",
                    expected="'%% answer' in the source, or generate in the recipe: the panel has role generated",
                )

    def _refuse_form(self, window: RecipeWindow, answer: TokenSpan, tokens: Sequence[int], tools: tuple) -> None:
        whole = decode(tokens[answer.start : answer.end], self.token_bytes).decode("utf-8", errors="replace")
        if reason := form_problem(answer.kind, whole.removesuffix(TURN_END), tools):
            raise ProtocolError(
                reason, where=f"window {window.name}, answer {answer.name}", expected=expected_of(answer.kind)
            )

    def _refuse_miss(self, window: RecipeWindow, layout: Layout, tokens: Sequence[int]) -> None:
        miss = first_miss(self.engine, tokens, [(answer.start, answer.end) for answer in layout.answers])
        if miss is None:
            return
        answer = next(one for one in layout.answers if one.start <= miss.position < one.end)
        raise ProtocolError(
            f"the reference does not pass it: at position {miss.position} it says {self.token_bytes[miss.found]!r} "
            f"({miss.found})",
            where=f"window {window.name}, answer {answer.name}",
            expected=f"{self.token_bytes[miss.expected]!r} ({miss.expected})",
            todo="take another text, or say must_pass = false in the recipe",
        )

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


def generated_layout(how_to: Generate, prompt_tokens: int, tokens: int) -> Layout:
    """The one range that a generated output is."""
    span = TokenSpan(how_to.kind, how_to.range, prompt_tokens, tokens)
    return Layout((span,), (), ((prompt_tokens, tokens),))


def scored_tokens(layout: Layout, span: TokenSpan, tokens: Sequence[int]) -> list[int]:
    """The scored tokens of a range, without what stands between."""
    inside = ((max(low, span.start), min(high, span.end)) for low, high in layout.scored)
    return [token for low, high in inside for token in tokens[low:high]]


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
    """Raise ``ProtocolError`` when a range repeats itself; ``tokens``: the scored ones of it."""
    report = loop_report(tokens)
    if report.is_loop:
        raise ProtocolError(
            f"the range repeats itself (a block of {report.period} tokens over {report.stretch}, "
            f"{report.distinct_share:.0%} of the 8-grams distinct)",
            where=f"window {window}, range {span.name}",
            expected="no repetition loop in a scored span",
            todo="take another seed or another prompt",
        )
