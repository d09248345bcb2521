"""What a probe is asked for, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from drift_runs.errors import one_line

Verdict = Literal["yes", "no", "not established"]
YES: Verdict = "yes"
NO: Verdict = "no"
OPEN: Verdict = "not established"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWindow:
    """One window of the protocol."""

    name: str
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    """Scored positions, ascending, none is 0."""
    text: str
    """The tokens' bytes as UTF-8, control tokens by their name."""
    generated: bool = False
    """A model wrote it: its ids need not be those that a tokenizer would choose for its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the protocol needs of this engine."""

    scoring: bool = True
    """Rows of teacher-forced text."""
    dictionary: bool = True
    """The protocol's own table of ids and bytes."""
    wanted: bool = False
    """Log-probabilities of ids that the caller names."""
    generation: bool = False
    """Text that the engine writes."""
    text: bool = False
    """Ids of texts, chosen by the engine."""
    repeats: bool = False
    """The same bytes again: a floor of this arm says ``identical``."""
    sense: bool = False
    """What it writes must be neither a loop nor gibberish. A candidate may fail so, which is a finding; the reference
    may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """A protocol as far as one engine is concerned, and what is declared of that engine."""

    windows: tuple[ProbeWindow, ...]
    prompts: tuple[tuple[int, ...], ...] = ()
    """Ids of the prompts of rollouts: up to where an assistant's turn begins."""
    top_k: int
    path_shape: str
    full_vocabulary: bool
    """Whether whole rows are compared."""
    needs: Needs = Needs()
    dictionary_size: int
    dictionary_sha256: str
    dictionary: tuple[bytes, ...] | None = None
    """The table itself where one is at hand, to show which entry differs; the protocol has its digest alone."""
    context_tokens: int
    """Context that the protocol declares."""
    generation_tokens: int = 0
    """Tokens that are written behind a history at most."""
    weights: str = ""
    kv: str = ""
    dtype: str = ""
    server: tuple[tuple[str, str], ...] = ()
    """What the server was started with, as declared: (option, value)."""
    cache_prompt: bool | None = None
    """Whether the protocol lets a server reuse what it holds; None: it says nothing."""

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> ProbeTask:
        """From what ``asdict`` made of one, without its table, and a pipe carried."""
        windows = tuple(
            ProbeWindow(**{**window, "tokens": tuple(window["tokens"]), "positions": tuple(window["positions"])})
            for window in content["windows"]
        )
        return cls(
            **content
            | {
                "windows": windows,
                "prompts": tuple(map(tuple, content["prompts"])),
                "needs": Needs(**content["needs"]),
                "server": tuple((name, value) for name, value in content["server"]),
            }
        )

    @property
    def longest_tokens(self) -> int:
        """Tokens that the longest window makes an engine evaluate."""
        return max((window.positions[-1] for window in self.windows if window.positions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question, what was found, and the numbers that say so."""

    question: str
    """Its name: one word, the same in every version."""
    title: str
    answer: Verdict
    evidence: str
    """One line with the numbers seen, or the error that came instead."""
    needed: bool
    """Whether the protocol cannot be measured without a yes."""
    way_round: str = ""
    """What to do where the answer is no yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """All answers of one engine."""

    engine: str
    build: str
    hardware: str
    answers: tuple[Answer, ...]
    measured: Mapping[str, float] = field(default_factory=dict)
    """Figures of the answers by name, with their unit in it. What could not be measured is absent."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What the engine said of itself."""
    calls: int = 0
    """To the engine; one may be several requests."""
    seconds: float = 0.0

    @property
    def blocking(self) -> tuple[Answer, ...]:
        """What the protocol needs and was not found: nothing is measured while there is any."""
        return tuple(answer for answer in self.answers if answer.needed and answer.answer != YES)

    @property
    def remarks(self) -> tuple[Answer, ...]:
        """What was found to be a no, and does not keep the protocol from being measured."""
        return tuple(answer for answer in self.answers if not answer.needed and answer.answer == NO)

    def answer(self, question: str) -> Answer:
        """The answer of that name; ``KeyError`` without one."""
        for answer in self.answers:
            if answer.question == question:
                return answer
        raise KeyError(question)

    def as_json(self) -> dict[str, Any]:
        """For a file or a pipe: finite numbers, texts and lists alone."""
        return {
            "engine": self.engine,
            "build": self.build,
            "hardware": self.hardware,
            "answers": [asdict(answer) for answer in self.answers],
            "blocking": [answer.question for answer in self.blocking],
            "remarks": [answer.question for answer in self.remarks],
            "measured": dict(self.measured),
            "said": dict(self.said),
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> list[str]:
        """For people: a line an answer, and the way round under what is lacking."""
        width = max((len(answer.question) for answer in self.answers), default=0)
        found = [f"{one_line(self.engine)}, {one_line(self.build)}: {self.calls} calls in {self.seconds:.1f} s"]
        for answer in self.answers:
            mark = "!" if answer.needed and answer.answer != YES else " "
            found.append(f"{mark} {answer.answer:<15}  {answer.question:<{width}}  {one_line(answer.evidence)}")
            if answer.answer != YES and answer.way_round:
                found.append(f"{'':<{width + 21}}way round: {one_line(answer.way_round)}")
        return found
