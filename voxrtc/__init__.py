"""VoxRTC: talk to open speech language models from a browser, from one streaming engine."""

import os

__version__ = "0.1.0"

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before it is imported: ONNX Runtime would tell Microsoft of its use
