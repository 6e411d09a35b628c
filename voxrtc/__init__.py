"""VoxRTC: talk to open speech language models from a browser, from one streaming engine."""

__version__ = "0.1.0"
