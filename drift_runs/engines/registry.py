"""Which engine a protocol's name stands for, and how it is opened: the one place that knows all of them.

Nothing is imported before it is opened: each engine's library is an extra of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from drift_runs.engines.base import Engine, EngineIdentity, EngineSettings, ListedEngine
from drift_runs.errors import ConfigError
from drift_runs.machine import Place

Needs = Literal["gguf", "folder", "place", "rows"]


class Kind(NamedTuple):
    """One engine."""

    module: str
    name: str
    """Its class there."""
    needs: Needs
    """A weight file, a model folder, a server's address, or recorded rows."""
    listed: bool
    """Whether it lists the best entries of a row; otherwise it gives logits."""

    def load(self) -> type:
        return getattr(import_module(self.module), self.name)


def _server(name: str, kind: str) -> Kind:
    return Kind(f"drift_runs.engines.openai_server.{name}", kind, "place", listed=True)


ENGINES: Mapping[str, Kind] = {
    "llama_cpp": Kind("drift_runs.engines.llama_cpp", "LlamaCpp", "gguf", listed=False),
    "transformers": Kind("drift_runs.engines.transformers", "Transformers", "folder", listed=False),
    "mlx": Kind("drift_runs.engines.mlx", "MLX", "folder", listed=False),
    "tensorrt_llm": Kind("drift_runs.engines.tensorrt_llm", "TensorRTLLM", "folder", listed=True),
    "llama_server": _server("llama_server", "LlamaServer"),
    "vllm": _server("vllm", "VLLM"),
    "sglang": _server("sglang", "SGLang"),
    "tgi": _server("tgi", "TGI"),
    "mlx_lm_server": _server("mlx_lm_server", "MLXLMServer"),
    "generic": _server("generic", "Generic"),
    "replay": Kind("drift_runs.engines.replay", "Replay", "rows", listed=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """All that an engine is opened with."""

    engine: str
    settings: EngineSettings
    dictionary_size: int
    model: Path | None = None
    """Weight file or model folder."""
    adapter: Path | None = None
    place: Place | None = None
    rows: Path | None = None
    """Folder of a recorded capture."""

    @property
    def kind(self) -> Kind:
        return ENGINES[self.engine]

    def as_json(self) -> dict[str, Any]:
        """For a process of its own; :meth:`of_json` reads it."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
            if name != "place"
        } | {"place": None if self.place is None else _plain(asdict(self.place))}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Opening:
        settings = dict(content["settings"])
        settings["server"] = tuple((name, value) for name, value in settings["server"])
        place = content["place"]
        if place is not None:
            place = Place(**{**place, "tokenizer": _path(place["tokenizer"])})
        return cls(
            engine=content["engine"],
            settings=EngineSettings(**settings),
            dictionary_size=content["dictionary_size"],
            model=_path(content["model"]),
            adapter=_path(content["adapter"]),
            place=place,
            rows=_path(content["rows"]),
        )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def open_engine(opening: Opening, *, branches: bool = False) -> Engine | ListedEngine:
    """Open it. ``branches``: one of this process that can branch; every listed engine writes anyway.

    Raises
    ------
    EngineError
        its library is missing, or it cannot be opened so.
    """
    kind, settings = opening.kind, opening.settings
    if opening.engine == "llama_cpp":
        from drift_runs.engines.llama_cpp import LlamaCpp
        from drift_runs.engines.llama_cpp_branches import BranchingLlamaCpp

        return (BranchingLlamaCpp if branches else LlamaCpp)(_named(opening.model), settings, adapter=opening.adapter)
    if kind.needs == "rows":
        return kind.load()(_named(opening.rows), settings)
    if kind.needs == "folder":
        return kind.load()(_named(opening.model), settings)
    if opening.place is None:
        raise ConfigError("no server is named", where=f"engine {opening.engine}", expected="url in drift.toml")
    return kind.load()(opening.place, settings, dictionary_size=opening.dictionary_size)


def process_identity(engine: str, settings: EngineSettings) -> EngineIdentity:
    """What an engine of this process says of itself before a model is open."""
    if engine == "llama_cpp":
        from drift_runs.engines.llama_cpp import identity

        return identity()
    return import_module(ENGINES[engine].module).identity(settings)


def _named(path: Path | None) -> Path:
    if path is None:
        raise ConfigError("nothing is named to open", expected="a path in drift.toml")
    return path
