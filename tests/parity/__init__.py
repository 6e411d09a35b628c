"""Oracles: the reference implementations, run in an environment of their own (`make test-parity`).

`python -m tests.parity` has them make tiny checkpoints in their own layout and records what they say of them. Ordinary tests
hold our code to that record, `tests/golden`, without an oracle.
"""
