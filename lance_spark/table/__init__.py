"""One table: its versions, and how they are read, written, changed and kept.

In: a `Snapshot`, the version that an operation reads, and what the operation is asked. Out: batches, or a new version. Each folder is
an operation or a step of all; `docs/architecture.md` has their order. Begin with `versions/snapshot.py`, then follow a read through `scan/`
or a write through `write/`, `build/` and `commit/`.
"""
