"""Clones and branches: tables that begin as a version of another one.

Implements Clone of the transaction specification and "Shallow Clone" of the layout specification. A shallow clone, which a branch is too,
has its own manifests and reads the files of its source through a base path; a deep clone has copies of all files.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import (
    CorruptFileError,
    RefConflictError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_spark.metadata.locations import DATA
from lance_spark.metadata.manifest import BasePath, ExternalFile, Fragment, Manifest, serialise
from lance_spark.metadata.operations import Clone
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import WRITER, check_counts, feature_flags
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.manifest_store.external import put_manifest
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, manifest_path
from lance_spark.table.versions.tags_and_branches import Reference, resolve

_PIECE = 32 << 20


def create_branch(snapshot: Snapshot, name: str, reference: Reference | None = None) -> Snapshot:
    """A new branch that begins as the version that `reference` means, by default the snapshot's own.

    Raises RefConflictError if there is a branch of this name, or files of one.
    """
    refs.check_branch_name(name)
    source, root = resolve(snapshot, reference), snapshot.root
    if name in refs.branches(root):
        raise RefConflictError(f"{root.uri} has a branch {name!r} already")
    target = root.at(f"{root.uri}/{refs.branch_folder(name)}")
    parent = refs.branch(root, source.manifest.branch).identifier if source.manifest.branch else ()
    size = source.store.size(source.path)
    try:
        new = _commit(target, _shallow(source), source, branch=name)
    except FileExistsError:
        raise RefConflictError(f"{target.uri} has files of a branch that is not there; branches.delete({name!r}) removes them") from None
    identifier = (*parent, (source.version, uuid.uuid4().hex))
    branch = refs.Branch(name, source.version, source.manifest.branch, int(time.time()), size, identifier)
    refs.put_branch(root, branch, new=True)
    _check_still_there(source)
    return new


def shallow_clone(snapshot: Snapshot, target: Store, reference: Reference | None = None) -> Snapshot:
    """A new table at `target` that reads the files of the version that `reference` means where they are.

    The source notes the clone, so that cleaning it up with this package keeps the version; where the source cannot be written to, tag
    the version instead. Raises TableAlreadyExistsError.
    """
    source = resolve(snapshot, reference)
    _check_free(target)
    _note(source, target)
    new = _commit_new(target, _shallow(source), source, shallow=True)
    _check_still_there(source)
    return new


def _note(source: Snapshot, target: Store) -> None:
    """Note the clone with its source, and with the tables of which the source is a clone itself: it reads their files, too."""
    record = refs.CloneRecord(str(uuid.uuid4()), target.uri, source.version, source.manifest.branch)
    with contextlib.suppress(StorageError):
        refs.put_clone(source.root, record)
    seen = {source.root.uri}
    for base in source.manifest.base_paths:
        with contextlib.suppress(StorageError, UnsupportedFeatureError, CorruptFileError):
            root = source.locations.root_of(base)
            for clone in refs.clones(root) if root.uri not in seen else ():
                if clone.uri == source.root.uri:
                    refs.put_clone(root, replace(clone, id=str(uuid.uuid4()), uri=target.uri))
            seen.add(root.uri)


def deep_clone(snapshot: Snapshot, target: Store, reference: Reference | None = None, track: Track = untracked) -> Snapshot:
    """A new table at `target` with copies of all files of the version that `reference` means. Raises TableAlreadyExistsError."""
    source = resolve(snapshot, reference)
    _check_free(target)
    for store, path, to in track(list(_files_to_copy(source)), "copy files"):
        _copy(store, path, target, to, track)
    manifest = replace(_rebased(source.manifest, lambda _: None), base_paths=())
    return _commit_new(target, manifest, source, shallow=False)


def _check_free(target: Store) -> None:
    if any(entry.name.endswith(".manifest") for entry in target.list(VERSIONS)):
        raise TableAlreadyExistsError(f"there is a Lance table at {target.uri} already")


def _check_still_there(source: Snapshot) -> None:
    """Asked after the reference is written: a cleanup that had not seen it may be deleting the version."""
    if not source.store.exists(source.path):
        raise VersionNotFoundError(f"{source} was removed while it was cloned; delete the clone")


def _shallow(source: Snapshot) -> Manifest:
    """The manifest with all files where they are, seen from another table."""
    manifest = source.manifest
    sequences = [s for f in manifest.fragments for s in (f.row_ids, f.created_at, f.updated_at)]
    if any(isinstance(s, ExternalFile) for s in sequences):
        raise UnsupportedFeatureError(f"{source} keeps row ids in files of their own, which a shallow clone cannot refer to")
    own = BasePath(max((b.id for b in manifest.base_paths), default=-1) + 1, source.store.uri, True, manifest.branch)
    return replace(_rebased(manifest, lambda id: own.id if id is None else id), base_paths=(*manifest.base_paths, own))


def _rebased(manifest: Manifest, base: Callable[[int | None], int | None]) -> Manifest:
    """The manifest with other base ids for all its files."""

    def fragment(f: Fragment) -> Fragment:
        deletion = None if f.deletion is None else replace(f.deletion, base_id=base(f.deletion.base_id))
        return replace(f, files=tuple(replace(file, base_id=base(file.base_id)) for file in f.files), deletion=deletion)

    indexes = tuple(replace(index, base_id=base(index.base_id)) for index in manifest.indexes)
    return replace(manifest, fragments=tuple(fragment(f) for f in manifest.fragments), indexes=indexes)


def _commit_new(target: Store, manifest: Manifest, source: Snapshot, *, shallow: bool) -> Snapshot:
    try:
        return _commit(target, manifest, source, shallow=shallow)
    except FileExistsError:
        raise TableAlreadyExistsError(f"there is a Lance table at {target.uri} already") from None


def _commit(target: Store, manifest: Manifest, source: Snapshot, *, shallow: bool = True, branch: str | None = None) -> Snapshot:
    """Write the first version of the clone, which has the number of the source's. FileExistsError if there is one."""
    check_counts(source.manifest)
    operation = Clone(shallow, source.version, source.store.uri, source.manifest.branch, branch)
    transaction = Transaction(source.version, operation)
    content = serialise_transaction(transaction)
    manifest = replace(
        manifest,
        timestamp=time.time_ns(),
        branch=branch,
        tag="",
        writer=WRITER,
        transaction_file=transaction.file_name,
        transaction=content,
    )
    reader, writer = feature_flags(manifest, stable_row_ids=manifest.has_stable_row_ids)
    manifest = replace(manifest, reader_flags=reader, writer_flags=writer)
    target.put(f"{TRANSACTIONS}/{transaction.file_name}", content)
    path = manifest_path(manifest.version)
    put_manifest(target, manifest.version, path, serialise(manifest))
    return Snapshot(target, manifest, path, source.allow_other_stores)


def _files_to_copy(source: Snapshot) -> Iterator[tuple[Store, str, str]]:
    """All files that the version names, and the paths that they have in a table without base paths."""
    locations = source.locations
    for fragment in source.manifest.fragments:
        for file in fragment.files:
            store, path = locations.data_file(file)
            yield store, path, f"{DATA}/{file.path}"
            # Large values of a file's blobs are beside it, in a folder of its name.
            stem = path.removesuffix(".lance")
            for entry in store.walk(stem):
                yield store, f"{stem}/{entry.name}", f"{DATA}/{file.path.removesuffix('.lance')}/{entry.name}"
        if fragment.deletion is not None:
            store, path = locations.deletion_file(fragment)
            yield store, path, fragment.deletion.path(fragment.id)
        for sequence in (fragment.row_ids, fragment.created_at, fragment.updated_at):
            if isinstance(sequence, ExternalFile):
                store, path = locations.root_file(sequence.path)
                yield store, path, sequence.path
    for index in source.manifest.indexes:
        store, folder = locations.index_folder(index)
        for entry in store.walk(folder):
            yield store, f"{folder}/{entry.name}", f"_indices/{uuid.UUID(bytes=index.uuid)}/{entry.name}"


def _copy(source: Store, path: str, target: Store, to: str, track: Track) -> None:
    """Copy a file in pieces, unless it is there already: files of a table never change, and fragments may share one."""
    size = source.size(path)
    with contextlib.suppress(FileNotFoundError):
        if target.size(to) == size:
            return
        target.delete(to)
    with target.create(to) as out:
        pieces = range(0, size, _PIECE)
        for start in track(pieces, "copy pieces") if len(pieces) > 1 else pieces:
            out.write(source.read_ranges(path, [ByteRange(start, min(start + _PIECE, size))])[0].data)
