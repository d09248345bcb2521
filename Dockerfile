# The dashboard and the command line. The base may be any Debian with Python 3.11 to 3.13 and its venv module:
#   docker build --build-arg BASE=python:3.13-slim -t drift-runs .
# Results live in the volume /data. Publish the port to this machine only, because the dashboard asks for no password:
#   docker run --rm -v drift-data:/data -p 127.0.0.1:8501:8501 drift-runs
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY requirements.lock ./
# Wheels only: there is no compiler here, and none is needed. Behind a proxy with a certificate of its own, hand over the
# bundle as the secret "ca"; it does not stay in the image.
RUN --mount=type=secret,id=ca,required=false \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    python3 -m venv /opt/drift \
    && /opt/drift/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --only-binary :all: --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY drift_runs ./drift_runs
COPY dashboard ./dashboard
COPY protocols ./protocols
COPY models/smollm2-ops/smollm2-ops.gguf models/smollm2-ops/smollm2-ops.sha256 ./models/smollm2-ops/
RUN /opt/drift/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check \
        --no-deps --no-build-isolation .

FROM ${BASE}
# The engine's library wants GNU's OpenMP, which a slim base leaves out.
RUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends libgomp1 >/dev/null && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/drift /opt/drift
RUN useradd --uid 10001 --create-home drift && mkdir /data && chown drift:drift /data
ENV PATH=/opt/drift/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DRIFT_STORE=/data/store \
    DRIFT_CACHE=/data/cache \
    MLFLOW_DISABLE_TELEMETRY=true \
    STREAMLIT_BROWSER_GATHER_USAGE_STATS=false
VOLUME /data
WORKDIR /data
USER drift
EXPOSE 8501
# Ctrl-C is how the dashboard is closed; the first process of a container ignores the usual signal.
STOPSIGNAL SIGINT
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
# All addresses of the container, which are reached only through the ports that are published.
CMD ["drift", "dashboard", "--address", "0.0.0.0", "--port", "8501", "--no-browser"]
