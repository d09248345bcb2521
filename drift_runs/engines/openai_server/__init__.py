"""Models behind a server: one transport, one reading of what comes back, and a file a dialect.

A dialect is opened as ``Class(place, settings, dictionary_size=...)`` and is a ``ListedEngine`` of ``engines.base``.
``transport`` sends and tries again, ``listing`` refuses what must not become a number, ``server`` is what all share.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "vllm": "drift_runs.engines.openai_server.vllm:VLLM",
        "llama_server": "drift_runs.engines.openai_server.llama_server:LlamaServer",
        "sglang": "drift_runs.engines.openai_server.sglang:SGLang",
        "mlx_lm_server": "drift_runs.engines.openai_server.mlx_lm_server:MLXLMServer",
        "tgi": "drift_runs.engines.openai_server.tgi:TGI",
        "generic": "drift_runs.engines.openai_server.generic:Generic",
    }
)
"""Where the class of each dialect is: ``module:Class``."""
