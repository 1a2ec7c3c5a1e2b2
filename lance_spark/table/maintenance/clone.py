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
    LanceError,
    RefConflictError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from lance_spark.file.blob_places import is_sidecar_name
from lance_spark.file.footer import FOOTER, file_version
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.locations import DATA, INDICES, check_relative
from lance_spark.metadata.manifest import BasePath, ExternalFile, Fragment, IndexMetadata, Manifest, serialise
from lance_spark.metadata.operations import Clone
from lance_spark.metadata.row_ids import load_sequence, parse_row_ids, parse_versions
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import WRITER, check_counts, feature_flags
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.manifest_store.external import external, put_manifest
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.hint import PATH as HINT
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.named_files import check_whole
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
    try:
        check_whole(source)
    except LanceError:
        refs.delete_branch(root, name)
        _remove(new)
        raise
    return new


def shallow_clone(snapshot: Snapshot, target: Store, reference: Reference | None = None) -> Snapshot:
    """A new table at `target` that reads the files of the version that `reference` means where they are.

    The source notes the clone, so that cleaning it up with this package keeps the version; where the source cannot be written to, tag
    the version instead. Raises TableAlreadyExistsError.
    """
    source = resolve(snapshot, reference)
    _check_free(target)
    with contextlib.ExitStack() as undo:
        try:
            _note(source, target, undo)
            new = _commit_new(target, _shallow(source), source, shallow=True)
            undo.callback(_remove, new)
            check_whole(source)
        except StorageError:
            undo.pop_all()  # the clone may be there
            raise
        undo.pop_all()
    return new


def _note(source: Snapshot, target: Store, undo: contextlib.ExitStack) -> None:
    """Note the clone with its source, and with the tables of which the source is a clone itself: it reads their files, too."""

    def note(root: Store, record: refs.CloneRecord) -> None:
        refs.put_clone(root, record)
        undo.callback(refs.delete_clone, root, record.id)

    with contextlib.suppress(StorageError):
        note(source.root, refs.CloneRecord(str(uuid.uuid4()), target.uri, source.version, source.manifest.branch))
    seen = {source.root.uri}
    for base in source.manifest.base_paths:
        with contextlib.suppress(StorageError, UnsupportedFeatureError, CorruptFileError):
            root = source.locations.root_of(base)
            for clone in refs.clones(root) if root.uri not in seen else ():
                if clone.uri == source.root.uri:
                    note(root, replace(clone, id=str(uuid.uuid4()), uri=target.uri))
            seen.add(root.uri)


def deep_clone(snapshot: Snapshot, target: Store, reference: Reference | None = None, track: Track = untracked) -> Snapshot:
    """A new table at `target` with copies of all files of the version that `reference` means.

    Only what the manifest says is copied: each file is looked at before the first is copied, and CorruptFileError raised for one that is
    something else. Raises UnsupportedFeatureError for files below a base path that may not be handed on, see `_check_base`, and
    TableAlreadyExistsError.
    """
    source = resolve(snapshot, reference)
    _check_free(target)
    manifest = replace(_rebased(_inlined(source), lambda _: None), base_paths=())
    for to, (store, path) in track(list(_files_to_copy(source).items()), "copy files"):
        _copy(store, path, target, to, track)
    return _commit_new(target, manifest, source, shallow=False)


def _check_free(target: Store) -> None:
    if any(entry.name.endswith(".manifest") for entry in target.list(VERSIONS)):
        raise TableAlreadyExistsError(f"there is a Lance table at {target.uri} already")


def _remove(new: Snapshot) -> None:
    """Remove the first version of a clone that cannot be read, and what was written with it."""
    if (manifests := external(new.store)) is not None:
        manifests.forget()
    for path in (new.path, HINT, f"{TRANSACTIONS}/{new.manifest.transaction_file}"):
        new.store.delete(path)


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
    move_hint(target, manifest.version)
    return Snapshot(target, manifest, path, source.allow_other_stores)


def _check_base(source: Snapshot, base: BasePath) -> None:
    """Raise UnsupportedFeatureError for a base path that may name what its owner does not give away, as a table from others can.

    Trusted are those in the table's own folder, such as those of a branch, and tables that have noted this one as their clone.
    """
    if source.allow_other_stores or source.locations.is_inside(base, source.root):
        return
    with contextlib.suppress(StorageError, CorruptFileError):
        if any(clone.uri == source.root.uri for clone in refs.clones(source.locations.root_of(base))):
            return
    raise UnsupportedFeatureError(
        f"{source} has files at {shown(base.path)!r}, outside of its folder, and what is there has not noted it as a clone; "
        "allow_other_stores=True copies them all the same"
    )


def _files_to_copy(source: Snapshot) -> dict[str, tuple[Store, str]]:
    """All files that the version names, checked, by the paths that they have in a table without base paths."""
    found: dict[str, tuple[Store, str]] = {}
    manifest = source.manifest
    used = {base_id for f in manifest.fragments for base_id in (*(file.base_id for file in f.files), f.deletion and f.deletion.base_id)}
    used |= {index.base_id for index in manifest.indexes}
    for base in manifest.base_paths:
        if base.id in used:
            _check_base(source, base)
    for to, store, path in _files(source):
        if found.setdefault(to, (store, path)) != (store, path):
            raise UnsupportedFeatureError(f"{source} has two files that are {to} in a table without base paths")
    return found


def _files(source: Snapshot) -> Iterator[tuple[str, Store, str]]:
    locations = source.locations
    for fragment in source.manifest.fragments:
        for file in fragment.files:
            store, path = locations.data_file(file)
            _check_lance_file(store, path, None if file.is_legacy else file.size)
            yield f"{DATA}/{file.path}", store, path
            # Large values of a file's blobs are beside it, in a folder of its name.
            stem = path.removesuffix(".lance")
            for entry in store.list(stem):
                if is_sidecar_name(entry.name):
                    yield f"{DATA}/{file.path.removesuffix('.lance')}/{entry.name}", store, f"{stem}/{entry.name}"
        if fragment.deletion is not None:
            read_deletions(fragment, locations)
            yield fragment.deletion.path(fragment.id), *locations.deletion_file(fragment)
    for index in source.manifest.indexes:
        store, folder = locations.index_folder(index)
        for name in _index_files(store, folder, index):
            yield f"{INDICES}/{uuid.UUID(bytes=index.uuid)}/{name}", store, f"{folder}/{name}"


def _index_files(store: Store, folder: str, index: IndexMetadata) -> Iterator[str]:
    """The files of an index, which are those that the manifest lists; writers that list none make nothing but Lance files."""
    for listed in index.files:
        check_relative(listed.path, "file of an index")
        if listed.size and (size := store.size(f"{folder}/{listed.path}")) != listed.size:
            raise CorruptFileError(f"{store.uri}/{folder}/{listed.path} has {size} bytes, the manifest says {listed.size}")
        yield listed.path
    for entry in () if index.files else store.walk(folder):
        _check_lance_file(store, f"{folder}/{entry.name}", None)
        yield entry.name


def _check_lance_file(store: Store, path: str, size: int | None) -> None:
    """Raise CorruptFileError unless a file has `size`, if that is known, and ends as all Lance files do."""
    tail, actual = store.read_tail(path, FOOTER.size)
    if size and size != actual:
        raise CorruptFileError(f"{store.uri}/{path} has {actual} bytes, the manifest says {size}")
    try:
        file_version(tail)
    except CorruptFileError as e:
        raise CorruptFileError(f"{store.uri}/{path}: {e}") from None


def _inlined(source: Snapshot) -> Manifest:
    """The manifest with the row ids that are in files of their own: those could be any files."""

    def inlined(f: Fragment) -> Fragment:
        def loaded(sequence: bytes | ExternalFile | None, parse: Callable[[bytes, int], object]) -> bytes | None:
            if not isinstance(sequence, ExternalFile):
                return sequence
            data = load_sequence(sequence, source.locations)
            parse(data, f.physical_rows)
            return data

        created, updated = loaded(f.created_at, parse_versions), loaded(f.updated_at, parse_versions)
        return replace(f, row_ids=loaded(f.row_ids, parse_row_ids), created_at=created, updated_at=updated)

    return replace(source.manifest, fragments=tuple(inlined(f) for f in source.manifest.fragments))


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
