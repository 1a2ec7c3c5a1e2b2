"""Clones and branches: new tables that start from a version of another table.

Implements Clone of the transaction specification and "Shallow Clone" of the layout specification. A shallow clone or a branch has its own
manifests and reads the files of its source through a base path. A deep clone has copies of all files.
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
from lance_spark.file.blob_file_names import is_sidecar_name
from lance_spark.file.footer import FOOTER, file_version
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import LineageSequence
from lance_spark.metadata.locations import BLOB_SUFFIX, BLOBS, DATA, INDICES, check_relative
from lance_spark.metadata.manifest import (
    MANAGED_BLOBS,
    BasePath,
    Fragment,
    IndexMetadata,
    Manifest,
    check_writable,
    serialise,
)
from lance_spark.metadata.numbered_writes import following
from lance_spark.metadata.operations import Clone
from lance_spark.metadata.row_ids import load_sequence, parse_row_ids, parse_versions
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import with_new_log
from lance_spark.table.build.manifest_builder import WRITER, check_counts, feature_flags
from lance_spark.table.build.reuse_history import with_inline_details
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.manifest_store.external import external, put_manifest
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.clones import Holds
from lance_spark.table.versions.hint import PATH as HINT
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.identity_claims import copy_claims
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, manifest_path
from lance_spark.table.versions.spilled_lineage import with_lineage
from lance_spark.table.versions.tags_and_branches import Reference, resolve

_PIECE = 32 << 20
"""Bytes of a file that are in memory while it is copied."""


def create_branch(snapshot: Snapshot, name: str, reference: Reference | None = None) -> Snapshot:
    """Create a branch that starts from the version `reference` (default: the snapshot's own).

    Raises RefConflictError if the branch, or files of such a branch, exist.
    """
    refs.check_branch_name(name)
    source, root = resolve(snapshot, reference), snapshot.root
    refs.check_not_in_transaction(source, source.manifest.branch, "new branches")
    check_writable(source.manifest, source.store.uri)
    if name in refs.branches(root):
        raise RefConflictError(f"the branch {name!r} of {root.uri} already exists")
    target = root.at(f"{root.uri}/{refs.branch_folder(name)}")
    parent = refs.branch(root, source.manifest.branch).identifier if source.manifest.branch else ()
    size = source.store.size(source.path)
    try:
        new = _commit(target, _shallow(source), source, branch=name)
    except FileExistsError:
        raise RefConflictError(f"{target.uri} has files of a branch that does not exist; branches.delete({name!r}) removes them") from None
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
    """Create a table at `target` that reads the source's files for the version `reference` (default: the snapshot's own).

    A tag in each table whose files it reads keeps these files in cleanups (see `table.versions.clones`). A table that cannot be written
    to is warned of: its cleanups may break the clone. Raises TableAlreadyExistsError.
    """
    source = resolve(snapshot, reference)
    refs.check_not_in_transaction(source, source.manifest.branch, "shallow clones")
    check_writable(source.manifest, source.store.uri)
    _check_free(target)
    manifest = _shallow(source)
    holds = Holds(source, target)
    with contextlib.ExitStack() as undo:
        try:
            undo.callback(holds.remove)
            holds.take()
            new = _commit_new(target, manifest, source, shallow=True)
            undo.callback(_remove, new)
            holds.keep()
            check_whole(source)
        except StorageError:
            undo.pop_all()  # the clone may have been written
            raise
        undo.pop_all()
    holds.warn()
    return new


def deep_clone(snapshot: Snapshot, target: Store, reference: Reference | None = None, track: Track = untracked) -> Snapshot:
    """Create a table at `target` with copies of all files of the version `reference` (default: the snapshot's own).

    All files are checked before the first one is copied: CorruptFileError is raised if a file is not what the manifest declares. Raises
    UnsupportedFeatureError for files below an untrusted base path (see `_check_base`), and TableAlreadyExistsError.
    """
    source = resolve(snapshot, reference)
    check_writable(source.manifest, source.store.uri)
    _check_free(target)
    manifest = replace(with_bases(_inlined(source), lambda _: None), base_paths=())
    for to, (store, path) in track(list(files_to_copy(source).items()), "copy files"):
        copy_file(store, path, target, to, track)
    return _commit_new(target, manifest, source, shallow=False)


def _check_free(target: Store) -> None:
    if any(entry.name.endswith(".manifest") for entry in target.list(VERSIONS)):
        raise TableAlreadyExistsError(f"a Lance table already exists at {target.uri}; give the clone another path")


def _remove(new: Snapshot) -> None:
    """Remove the first version of an unreadable clone, with the files that were written for it."""
    if (manifests := external(new.store)) is not None:
        manifests.forget()
    for path in (new.path, HINT, f"{TRANSACTIONS}/{new.manifest.transaction_file}"):
        new.store.delete(path)


def _shallow(source: Snapshot) -> Manifest:
    """The manifest of a shallow clone, which refers to the source's files by base paths."""
    manifest = with_lineage(source.manifest, source.locations)
    own = BasePath(max((b.id for b in manifest.base_paths), default=-1) + 1, source.store.uri, True, manifest.branch)
    return replace(with_bases(manifest, lambda id: own.id if id is None else id), base_paths=(*manifest.base_paths, own))


def with_bases(manifest: Manifest, base: Callable[[int | None], int | None]) -> Manifest:
    """The manifest with the base ids of all files mapped by `base`."""

    def fragment(original: Fragment) -> Fragment:
        deletion = None if original.deletion is None else replace(original.deletion, base_id=base(original.deletion.base_id))
        return replace(original, files=tuple(replace(file, base_id=base(file.base_id)) for file in original.files), deletion=deletion)

    indexes = tuple(replace(index, base_id=base(index.base_id)) for index in manifest.indexes)
    return replace(manifest, fragments=tuple(fragment(f) for f in manifest.fragments), indexes=indexes)


def _commit_new(target: Store, manifest: Manifest, source: Snapshot, *, shallow: bool) -> Snapshot:
    copy_claims(source.root, target, source.manifest.schema)
    try:
        return _commit(target, manifest, source, shallow=shallow)
    except FileExistsError:
        raise TableAlreadyExistsError(f"a Lance table already exists at {target.uri}; give the clone another path") from None


def _commit(target: Store, manifest: Manifest, source: Snapshot, *, shallow: bool = True, branch: str | None = None) -> Snapshot:
    """Write the first version of the clone, with the source's version number. Raises FileExistsError if it exists."""
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
        indexes=with_new_log(manifest.indexes),
        transaction_file=transaction.file_name,
        transaction=content,
        numbered=following(None, 0, manifest.version, {}),  # writes to the source do not count
    )
    reader, writer = feature_flags(manifest, stable_row_ids=manifest.has_stable_row_ids)
    manifest = replace(manifest, reader_flags=reader, writer_flags=writer)
    target.put(f"{TRANSACTIONS}/{transaction.file_name}", content)
    path = manifest_path(manifest.version)
    put_manifest(target, manifest.version, path, serialise(manifest))
    move_hint(target, manifest.version)
    return Snapshot(target, manifest, path, source.allow_other_stores)


def _check_base(source: Snapshot, base: BasePath) -> None:
    """Raise UnsupportedFeatureError for an untrusted base path: the manifest of a foreign table could name any folder.

    Trusted are base paths in the table's own folder, such as those of branches, and tables that have recorded this one as their clone.
    """
    if source.allow_other_stores or source.locations.is_inside(base, source.root):
        return
    with contextlib.suppress(StorageError, CorruptFileError):
        if any(clone.uri == source.root.uri for clone in refs.clones(source.locations.root_of(base))):
            return
    raise UnsupportedFeatureError(
        f"{source} has files at {shown(base.path)!r}, outside of its folder, in a table that has not recorded it as a clone; "
        "if you trust the table, open it with allow_other_stores=True"
    )


def files_to_copy(source: Snapshot) -> dict[str, tuple[Store, str]]:
    """All files of the version, after checks: path in the new table -> store and path of the file."""
    found: dict[str, tuple[Store, str]] = {}
    manifest = source.manifest
    used = {file.base_id for f in manifest.fragments for file in f.files}
    used |= {f.deletion.base_id for f in manifest.fragments if f.deletion is not None}
    used |= {index.base_id for index in manifest.indexes}
    for base in manifest.base_paths:
        if base.id in used:
            _check_base(source, base)
    for to, store, path in _files(source):
        if found.setdefault(to, (store, path)) != (store, path):
            raise UnsupportedFeatureError(f"{source} has two files that would both be {to} in the clone")
    return found


def _files(source: Snapshot) -> Iterator[tuple[str, Store, str]]:
    locations = source.locations
    roots: dict[str, Store] = {}
    for fragment in source.manifest.fragments:
        for file in fragment.files:
            store, path = locations.data_file(file)
            if path.startswith(f"{DATA}/"):
                roots[store.uri] = store
            _check_lance_file(store, path, None if file.is_legacy else file.size)
            yield f"{DATA}/{file.path}", store, path
            # The large blobs of a data file are in a folder of the same name.
            stem = path.removesuffix(".lance")
            for entry in store.list(stem):
                if is_sidecar_name(entry.name):
                    yield f"{DATA}/{file.path.removesuffix('.lance')}/{entry.name}", store, f"{stem}/{entry.name}"
        if fragment.deletion is not None:
            read_deletions(fragment, locations)
            yield fragment.deletion.path(fragment.id), *locations.deletion_file(fragment)
    for root in roots.values() if source.manifest.reader_flags & MANAGED_BLOBS else ():
        # Which of them this version has only its data files tell.
        for folder in (BLOBS, DATA):
            paths = (f"{folder}/{entry.name}" for entry in root.walk(folder) if entry.name.endswith(BLOB_SUFFIX))
            yield from ((path, root, path) for path in paths)
    for index in source.manifest.indexes:
        if index.details_file is not None:
            continue
        store, folder = locations.index_folder(index)
        for name in _index_files(store, folder, index):
            yield f"{INDICES}/{uuid.UUID(bytes=index.uuid)}/{name}", store, f"{folder}/{name}"


def _index_files(store: Store, folder: str, index: IndexMetadata) -> Iterator[str]:
    """The files of an index that the manifest lists. If it lists none, all files in the folder, which must be Lance files."""
    for listed in index.files:
        check_relative(listed.path, "file of an index")
        if listed.size and (size := store.size(f"{folder}/{listed.path}")) != listed.size:
            raise CorruptFileError(f"{store.uri}/{folder}/{listed.path} has {size} bytes, expected {listed.size} as in the manifest")
        yield listed.path
    for entry in () if index.files else store.walk(folder):
        _check_lance_file(store, f"{folder}/{entry.name}", None)
        yield entry.name


def _check_lance_file(store: Store, path: str, size: int | None) -> None:
    """Raise CorruptFileError unless the file has `size` (None: unknown) and the footer of a Lance file."""
    tail, actual = store.read_tail(path, FOOTER.size)
    if size and size != actual:
        raise CorruptFileError(f"{store.uri}/{path} has {actual} bytes, expected {size} as in the manifest")
    try:
        file_version(tail)
    except CorruptFileError as e:
        raise CorruptFileError(f"{store.uri}/{path}: {e}") from None


def _inlined(source: Snapshot) -> Manifest:
    """The manifest with what is in separate files of any form made inline: row ids and versions, and the fragment reuse index.

    Copying is unsafe: these could be any files.
    """

    def inlined(fragment: Fragment) -> Fragment:
        def loaded(sequence: LineageSequence | None, parse: Callable[[bytes, int], object]) -> bytes | None:
            if sequence is None or isinstance(sequence, bytes):
                return sequence
            data = load_sequence(sequence, source.locations)
            parse(data, fragment.physical_rows)
            return data

        created, updated = loaded(fragment.created_at, parse_versions), loaded(fragment.updated_at, parse_versions)
        return replace(fragment, row_ids=loaded(fragment.row_ids, parse_row_ids), created_at=created, updated_at=updated)

    fragments = tuple(inlined(f) for f in source.manifest.fragments)
    return replace(source.manifest, fragments=fragments, indexes=tuple(map(with_inline_details, source.manifest.indexes)))


def copy_file(source: Store, path: str, target: Store, to: str, track: Track) -> None:
    """Copy a file in pieces unless it exists. Files of a table never change, and fragments may share a file."""
    size = source.size(path)
    with contextlib.suppress(FileNotFoundError):
        if target.size(to) == size:
            return
        target.delete(to)
    with target.create(to) as out:
        pieces = range(0, size, _PIECE)
        for start in track(pieces, "copy pieces") if len(pieces) > 1 else pieces:
            out.write(source.read_ranges(path, [ByteRange(start, min(start + _PIECE, size))])[0].data)
