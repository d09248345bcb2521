"""A real llama.cpp server on this machine, in a process of its own that a test may kill.

python -m tests.engines.llama_server_process MODEL CONTEXT SLOTS
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ADDRESS = "listening on "


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that answers."""

    url: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(timeout=60)


@contextmanager
def llama_server(model: Path, *, context_tokens: int = 128, slots: int = 1) -> Iterator[RunningServer]:
    """Start it on a free port of the loopback; ended when the block is left, whatever happened."""
    command = [sys.executable, "-m", "tests.engines.llama_server_process", str(model), str(context_tokens), str(slots)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = next((line for line in process.stdout if line.startswith(_ADDRESS)), "")
        assert said, f"the server ended with exit code {process.wait(timeout=60)} before it listened"
        yield RunningServer(url=said.removeprefix(_ADDRESS).strip(), process=process)
    finally:
        process.kill()
        process.wait(timeout=60)


def _serve(model: str, context_tokens: int, slots: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = context_tokens * slots
    params.n_parallel = slots
    params.n_batch, params.n_ubatch = 64, 32
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 2
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.fit_params = params.warmup = params.ui = False
    params.cache_ram_mib = 0  # what is kept of earlier histories in memory would come back into the slot
    params.verbosity = -1
    server = xllamacpp.Server(params)
    print(f"{_ADDRESS}{server.listening_address}", flush=True)
    # Ends with the test's process too: its end of the pipe is closed then, however it died.
    sys.stdin.read()
    signal.raise_signal(signal.SIGKILL)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
