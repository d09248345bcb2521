"""Runs inside the image: is it what it should be, and do the command line and the dashboard work in it?

Handed to the container on standard input by .ci/image, with the image's configuration as JSON in the one argument.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HEALTH = "http://127.0.0.1:8501/_stcore/health"
START_LIMIT_S = 90.0
STOP_LIMIT_S = 15.0


def fail(text: str) -> None:
    sys.exit(f"image: {text}")


def show(command: list[str]) -> None:
    print(f"$ {' '.join(command)}", flush=True)
    if code := subprocess.run(command, check=False).returncode:
        fail(f"{' '.join(command)} ended with code {code}")


def main(settings: dict) -> None:
    if os.getuid() == 0 or settings["User"] in ("", "root", "0"):
        fail(f"it runs as root (user {settings['User']!r}, id {os.getuid()})")
    for tool in ("cc", "gcc", "c++", "make"):
        if shutil.which(tool):
            fail(f"a compiler is in it: {tool}")
    if importlib.util.find_spec("torch"):
        fail("torch is in it")
    Path("/data/can-be-written").write_text("", encoding="utf-8")
    Path("/data/can-be-written").unlink()

    show(["python", "--version"])
    show(["python", "-c", "import xllamacpp; print('the engine library loads')"])
    show(["drift", "--version"])
    show(["drift", "check", "smollm2-quick"])
    show(["python", "-c", "from drift_runs.weights.demo import adapter_file; print(adapter_file())"])
    dashboard(settings["Cmd"], settings["Healthcheck"]["Test"][1:])


def dashboard(command: list[str], probe: list[str]) -> None:
    """The default command, the image's own health check, the page, and how it ends."""
    print(f"$ {' '.join(command)}", flush=True)
    started = time.monotonic()
    server = subprocess.Popen(command)
    try:
        while subprocess.run(probe, capture_output=True, check=False).returncode:
            if server.poll() is not None or time.monotonic() - started > START_LIMIT_S:
                fail(f"the dashboard did not answer (exit code {server.poll()})")
            time.sleep(0.5)
        took_s = time.monotonic() - started
        with urllib.request.urlopen(HEALTH) as answer:
            print(f"health check passes; {HEALTH}: {answer.status} {answer.read().decode()} after {took_s:.1f} s")
        with urllib.request.urlopen("http://127.0.0.1:8501/") as answer:
            if b"<title>Streamlit</title>" not in (page := answer.read()):
                fail(f"the first page is not the dashboard's: {page[:200]!r}")
        server.send_signal(signal.SIGINT)
        code = server.wait(STOP_LIMIT_S)
        print(f"stopped with code {code}")
        if code:
            fail("the dashboard did not end cleanly")
    finally:
        if server.poll() is None:
            server.kill()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    print("image: all of it works inside", flush=True)
