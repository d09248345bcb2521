#!/usr/bin/env bash
# An environment of its own for the engines transformers and MLX of this process, with the versions that the figures in
# docs/engines/ were measured with. It needs about 2 GB and is never made by the tests.
#
#     benchmarks/real_engines/in_process_env.sh FOLDER [PYTHON]
#     FOLDER/bin/python -m pytest tests/engines/test_transformers.py tests/engines/test_mlx.py
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 FOLDER [PYTHON]" >&2
  exit 2
fi
folder=$1
python=${2:-python3.11}
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ -e "$folder" ]; then
  echo "$folder exists: name another folder, or remove it" >&2
  exit 2
fi

packages=(
  torch==2.13.0
  transformers==5.24.0
  safetensors==0.8.0
  tokenizers==0.23.3
  accelerate==1.15.0
  torchao==0.18.0
  optimum-quanto==0.2.7
  bitsandbytes==0.50.2
  hqq==0.2.8
)
case "$(uname -s)" in
  Darwin) packages+=(mlx==0.32.4 mlx-lm==0.32.2) ;;
  # mlx-cpu alone lacks mlx.core, and mlx-lm does not ask for mlx on Linux.
  *) packages+=("mlx[cpu]==0.32.4" mlx-lm==0.32.2) ;;
esac

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet "${packages[@]}"
"$folder/bin/python" -m pip install --quiet --editable "${root}[llama-cpp,test]"
"$folder/bin/python" - <<'CHECK'
import importlib.metadata

from drift_runs.engines import mlx, transformers
from drift_runs.engines.base import EngineSettings

settings = EngineSettings(
    path_shape="prefill",
    context_tokens=8,
    batch=8,
    micro_batch=8,
    threads=1,
    kv="float",
    flash_attention="on",
)
for module in (transformers, mlx):
    found = module.identity(settings)
    print(f"{found.engine}: {found.build}; {found.backend}; {found.hardware}")
for name in ("torchao", "optimum-quanto", "bitsandbytes", "hqq"):
    print(f"{name} {importlib.metadata.version(name)}")
CHECK
