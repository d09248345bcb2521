"""What a protocol file may say, as frozen pydantic models (schema ``drift.protocol/1``).

Everything that changes a number is here. Nothing that differs from one machine to the next is: paths, addresses,
keys and thread counts belong to ``drift.toml``.

All spans are half-open ``[from, to)`` and count positions of the window's stream: position ``t`` is the prediction of
``tokens[t]`` from ``tokens[:t]``. Position 0 has no prediction and is never scored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drift_runs.protocol.generation import Branches, Chat, Constrained, Environment, Rollouts, Sampled, Task
from drift_runs.protocol.part import Digest, Name, Part

SCHEMA = "drift.protocol/1"
STREAM_SCHEMA = "drift.stream/1"
FOLLOW_UP_SCHEMA = "drift.followups/1"

RANGE_KINDS = (
    "prose",
    "code",
    "cli",
    "sql",
    "tool-call",
    "multi-tool",
    "recovery",
    "architecture",
    "json",
    "literal-copy",
)

RangeKind = Literal[
    "prose", "code", "cli", "sql", "tool-call", "multi-tool", "recovery", "architecture", "json", "literal-copy"
]
Role = Literal["prompt", "generated"]
Divergence = Literal["kl.full", "js.full", "kl.topk-tail", "kl.topk-shared", "kl.topk-lower", "kl.topk-floor"]
EngineName = Literal[
    "llama_cpp",
    "transformers",
    "mlx",
    "tensorrt_llm",
    "llama_server",
    "vllm",
    "sglang",
    "tgi",
    "mlx_lm_server",
    "generic",
    "replay",
    "imported",
]
HERE = "-here"
"""End of the name under which a reference runs as an arm of its own, where its rows came from another machine."""
LOGIT_ENGINES = ("llama_cpp", "transformers", "mlx")
"""Engines of this process that give the logits of the whole dictionary."""
SERVERS = ("llama_server", "vllm", "sglang", "tgi", "mlx_lm_server", "generic")
"""Engines behind an address."""
WRITERS = ("tgi", "mlx_lm_server", "generic")
"""Of these, the ones that take texts: they write, and give no rows of a text that is given."""
KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "iq4_nl"]
PathShape = Literal["prefill", "decode"]


class Dictionary(Part):
    """The token dictionary that every arm must share."""

    size: Annotated[int, Field(ge=2)]
    """Number of tokenizer entries; columns beyond it are padding and are dropped."""
    sha256: Digest
    """SHA-256 over, for each id in order, u32 little-endian byte length then the token's bytes."""


class Seeds(Part):
    """One seed for each thing that is drawn."""

    bootstrap: Annotated[int, Field(ge=0)]
    roots: Annotated[int, Field(ge=0)] = 0
    rollouts: Annotated[int, Field(ge=0)] = 0
    sampling: Annotated[int, Field(ge=0)] = 0


class Capture(Part):
    """How rows are taken."""

    top_k: Annotated[int, Field(ge=1, le=1024)] = 64
    path_shape: PathShape = "prefill"
    full_vocabulary: Literal["yes", "no"] = "yes"
    """``yes``: full distributions are compared at every scored position; only engines of this process give them.
    ``no``: the best ``top_k`` entries of every arm's stored rows are compared, so that servers, and rows of another
    machine, can be arms."""
    divergence: Divergence = "kl.full"
    """The definition that quantiles, worst range, verdict and ranking use; the others stand beside it."""
    context_tokens: Annotated[int, Field(ge=8, lt=2**31)] = 2048
    """Context that every arm's engine is opened with; engines count positions in 32 bits."""
    batch: Annotated[int, Field(ge=1)] = 2048
    """Logical batch in tokens."""
    micro_batch: Annotated[int, Field(ge=1)] = 512
    """Physical batch in tokens; another value is another geometry of the same weights."""


class Intervals(Part):
    """How uncertainty is computed; see METRICS, Intervals."""

    cluster: Literal["document", "window", "prompt"] = "document"
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 5000
    confidence: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95
    block_tokens: Annotated[int, Field(ge=1)] = 16


class History(Part):
    """Buckets of history length."""

    buckets: tuple[Annotated[int, Field(ge=1)], ...] = (256, 1024, 2047, 8191, 16383, 65535)
    """Inclusive upper ends in tokens; a last open bucket follows."""
    depth_tokens: Annotated[int, Field(ge=1)] = 8192
    """Width of a depth bucket."""


class Bands(Part):
    """Bands of the reference's confidence p1."""

    uncertain_below: Annotated[float, Field(gt=0, lt=1)] = 0.5
    strong_from: Annotated[float, Field(gt=0, le=1)] = 0.9


class Marks(Part):
    """What marks single positions."""

    volatile_above_nats: Annotated[float, Field(gt=0)] = 1.0
    """A position is volatile when |dnll| is larger."""
    confident_above: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """A volatile position is confident when either side gave the actual token more."""
    copy_tokens: Annotated[int, Field(ge=2, le=64)] = 12
    """A position is a copy when its token completes an n-gram of this length that ended before ..."""
    copy_distance_tokens: Annotated[int, Field(ge=1)] = 2048
    """... by more than this many tokens."""


class OutlierRule(Part):
    """When a window is proposed for separate reporting. A proposal changes no figure: only the protocol declares."""

    floor_multiple: Annotated[float, Field(gt=1)] = 5.0
    """A floor's mean divergence in the window is more than this multiple of the other windows' median."""
    volatile_rows: Annotated[int, Field(ge=1)] = 50
    """A floor has at least this many volatile positions in the window."""


class Verdict(Part):
    """The rule that sets a candidate against a floor."""

    margin: Annotated[float, Field(ge=0)] = 1.0
    """In multiples of the floor's mean."""


class Panel(Part):
    """Windows that are scored under one rule."""

    name: Name
    title: str
    role: Role
    """``prompt``: authored text; ``generated``: text that the reference wrote."""


class Window(Part):
    """One token stream and which of its positions are scored."""

    name: Name
    panel: Name
    document: Name
    """The cluster when intervals resample documents."""
    title: str
    stream: str = ""
    """Path of the stream file, relative to the protocol file; empty where only imported rows exist."""
    group: str = ""
    """A stratum or bucket that the panel's figures are also given for."""
    scored: tuple[tuple[int, int], ...]
    """Half-open spans, in order, that do not overlap."""


class Range(Part):
    """A labelled span of one window. It starts and ends with scored positions; what is not scored between them (the
    user's and the tools' turns of a conversation, for instance) is not in its figures."""

    name: Name
    window: Name
    kind: RangeKind
    start: Annotated[int, Field(alias="from", ge=1)]
    end: Annotated[int, Field(alias="to", ge=2)]
    label: str = ""


class Answer(Part):
    """The expected answer of a task: a span of scored positions whose own tokens are what should be written.

    An arm is *exact* on it when its best token is the text's own at every one of them: decoded greedily from the same
    history it would write this answer to the letter.
    """

    name: Name
    window: Name
    start: Annotated[int, Field(alias="from", ge=1)]
    end: Annotated[int, Field(alias="to", ge=2)]
    form: Literal["call", "json", "text"] = "text"
    """``call``: tool calls, each of them fits a schema among the stream's tools; ``json``: one JSON value."""


class Outlier(Part):
    """A window that is reported separately, declared before any result."""

    window: Name
    reason: Annotated[str, Field(min_length=10)]


class Settings(Part):
    """Engine settings of an arm; what is absent is the capture's or the engine's default."""

    flash_attention: Literal["on", "off"] = "on"
    batch: Annotated[int, Field(ge=1)] | None = None
    micro_batch: Annotated[int, Field(ge=1)] | None = None
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Only where the thread count is the variable; otherwise the machine's ``drift.toml`` decides."""
    path_shape: PathShape | None = None
    adapter_scale: Annotated[float, Field(gt=0, le=64)] | None = None
    """The engine loads the adapter that ``drift.toml`` names for the arm and applies it at this scale; absent: none."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """What ``transformers`` and ``mlx`` compute in."""
    quantise: Name | None = None
    """How ``transformers`` quantises weights when it loads them: ``<library>-<scheme>``, as in ``bnb-nf4``."""
    cache_prompt: bool | None = None
    """Whether a server may reuse what it holds of a history: another geometry of the same weights."""
    server: dict[Annotated[str, Field(min_length=1, max_length=64)], str | int | float | bool] = Field(
        default_factory=dict
    )
    """What the arm's server was started with, by the server's own names of its options. Nothing is started with it: it
    is part of the arm's identity, and held against what the server says of itself."""


class Arm(Part):
    """One configuration under test, described by facets."""

    name: Name
    role: Literal["reference", "candidate", "follow-up"]
    title: str = ""
    derivative: Name
    """Which edit of the base model: ``stock`` or the name of a derivative."""
    weights: Name
    """Declared weight type (``f16``, ``q8_0``, …); a file of another dominant type is refused."""
    kv: Name = "f16"
    """Type of both K and V in the cache; ``llama_cpp`` takes those of ``KVType``, others have names of their own."""
    engine: EngineName = "llama_cpp"
    """``imported``: its rows came from elsewhere and no engine is run; ``replay``: recorded rows are played."""
    hardware: str = ""
    """Where imported rows were made; of rows made here the engine says it."""
    settings: Settings = Settings()
    launches: Annotated[int, Field(ge=1, le=16)] = 1
    """Fresh processes that each take the whole panel."""
    against: Name | Literal[""] = ""
    """The reference of an imported arm, where it is another one than the protocol's."""


class Floor(Part):
    """An arm against itself."""

    name: Name
    arm: Name
    kind: Literal["pass", "launch", "geometry"]
    """``pass``: again in the same engine process; ``launch``: in a fresh one; ``geometry``: another execution."""
    rows: Literal["identical", "differ", "report"] = "report"
    """What must be seen. ``identical``: any other row is shown as determinism refuted. ``differ``: identical rows are
    an error, because then the changed setting did nothing."""
    settings: Settings | None = None
    """The changed geometry; absent for a plain second launch."""
    windows: tuple[Name, ...] = ()
    """Subset on which it is run; empty means all."""


class Supersedes(Part):
    """Which protocol this one replaces, for an amendment."""

    name: Name
    version: Annotated[int, Field(ge=1)]
    sha256: Digest
    changed: Annotated[str, Field(min_length=10)]
    why: Annotated[str, Field(min_length=10)]
    results_existed: bool


class Protocol(Part):
    """A whole protocol file."""

    schema_: Annotated[Literal["drift.protocol/1"], Field(alias="schema")]
    name: Name
    version: Annotated[int, Field(ge=1)]
    title: str
    question: str
    notes: tuple[str, ...] = ()
    """Sentences that every report and view shows (for instance what the stock weights really are)."""
    dictionary: Dictionary | None = None
    """Only a protocol of imported arms may have none."""
    seeds: Seeds
    capture: Capture = Capture()
    intervals: Intervals = Intervals()
    history: History = History()
    bands: Bands = Bands()
    verdict: Verdict = Verdict()
    marks: Marks = Marks()
    outlier_rule: OutlierRule = OutlierRule()
    panels: tuple[Panel, ...]
    windows: tuple[Window, ...]
    ranges: tuple[Range, ...]
    answers: tuple[Answer, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    arms: tuple[Arm, ...]
    floors: tuple[Floor, ...] = ()
    chat: Chat | None = None
    branches: Branches | None = None
    environments: tuple[Environment, ...] = ()
    rollouts: Rollouts | None = None
    sampled: Sampled | None = None
    tasks: tuple[Task, ...] = ()
    constrained: tuple[Constrained, ...] = ()
    supersedes: Supersedes | None = None

    @property
    def imported(self) -> bool:
        """Whether every arm's rows came from elsewhere."""
        return all(arm.engine == "imported" for arm in self.arms)

    @property
    def reference(self) -> Arm:
        """The first arm of role ``reference``; loading guarantees exactly one unless arms are imported."""
        return next(arm for arm in self.arms if arm.role == "reference")

    @property
    def outlier_windows(self) -> frozenset[str]:
        return frozenset(outlier.window for outlier in self.outliers)

    def window(self, name: str) -> Window:
        return next(window for window in self.windows if window.name == name)

    def panel(self, name: str) -> Panel:
        return next(panel for panel in self.panels if panel.name == name)


class FollowUps(Part):
    """Arms outside a frozen protocol, in a file of their own: the protocol's digest stays as it is."""

    schema_: Annotated[Literal["drift.followups/1"], Field(alias="schema")]
    protocol: Name
    protocol_sha256: Digest
    arms: tuple[Arm, ...]


class Stream(Part):
    """A token stream file: ids, the text beside them, and where it came from."""

    schema_: Annotated[Literal["drift.stream/1"], Field(alias="schema")]
    name: Name
    tokens: tuple[Annotated[int, Field(ge=0)], ...]
    text: str
    """The tokens' bytes decoded as UTF-8, special tokens included."""
    source: Literal["authored", "generated"]
    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    """Leading tokens that the reference was given; 0 for an authored text."""
    recorded: dict[str, str | int | float] = Field(default_factory=dict)
    """How a generated stream was made: weights digest, engine, seed, temperature."""
    tools: tuple[dict, ...] = ()
    """JSON schemas of the tools that the text may call."""
