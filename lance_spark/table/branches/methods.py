"""The branches of a table as `Dataset` and `LanceTable` show them: listed, compared, merged and published."""

from __future__ import annotations

from lance_spark.display.arguments import known_arguments
from lance_spark.metadata.branch_merges import MAIN
from lance_spark.table.branches.diff import BranchDiff
from lance_spark.table.branches.heads import latest_of
from lance_spark.table.branches.merge import cherry_pick, merge_branch
from lance_spark.table.branches.publish import FastForward, fast_forward
from lance_spark.table.branches.three_way import OnConflict
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.versions.tags_and_branches import Branches


@known_arguments
class BranchMethods(Branches):
    """The branches of a table except the main one, with pylance's names. `Dataset.create_branch` creates them.

    The methods that change a branch return the counts or the version of the change. This value, which is of the version that
    it was asked of, stays as it is.
    """

    def diff(self, before: str, after: str) -> BranchDiff:
        """The changes that lead from the branch `before` to the branch `after`: rows with `_change_type`, and a `summary()`.

        Raises VersionNotFoundError if a branch does not exist, and UnsupportedFeatureError if the table has neither a primary
        key nor stable row ids.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]}), enable_stable_row_ids=True)
            >>> _ = table.create_branch("dev").delete("id = 1")
            >>> table.branches.diff("main", "dev").to_table().to_pylist()
            [{'id': 1, '_change_type': 'delete'}]
        """
        return BranchDiff(latest_of(self.snapshot, before), latest_of(self.snapshot, after))

    def merge(self, branch: str, into: str = MAIN, *, on_conflict: OnConflict = "fail") -> RowChanges:
        """Commit what has changed in a branch to another one, as one version: since the last merge, or since the branch was made.

        Rows are known by the primary key or, without one, by their stable row ids. `on_conflict` is about rows that were changed
        in both branches: "fail" raises BranchMergeConflictError, whose `conflicts` is a table of them; "ours" leaves them as they
        are in `into`; "theirs" takes those of `branch`; a function gets the table, and returns "ours" or "theirs" for each row.
        New columns come with their values. Raises SchemaMismatchError for other changes of columns or constraints.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]}), enable_stable_row_ids=True)
            >>> _ = table.create_branch("dev").insert(pa.table({"id": [3]}))
            >>> table.branches.merge("dev").num_inserted_rows
            1
        """
        return merge_branch(self.snapshot, branch, into, on_conflict)

    def cherry_pick(self, version: int, branch: str, into: str = MAIN, *, on_conflict: OnConflict = "fail") -> RowChanges:
        """Commit what one version of a branch has changed to another branch. For the rest, see `merge`."""
        return cherry_pick(self.snapshot, version, branch, into, on_conflict)

    def rebase(self, branch: str, onto: str = MAIN, *, on_conflict: OnConflict = "fail") -> RowChanges:
        """Commit what has changed in another branch to a branch, which can then be published: `fast_forward(onto, branch)`.

        It is a merge of `onto` into `branch`.
        """
        return merge_branch(self.snapshot, onto, branch, on_conflict)

    def fast_forward(self, branch: str, to: str, *, copy: bool = False) -> FastForward:
        """Give a branch the rows, columns and indexes of another one that contains it, in one commit. Returns its versions.

        No data is copied: `branch` names the files of `to`, which a tag holds. With `copy`, the files of `to` are copied, so that it
        can be deleted.

        The arguments are those of Iceberg: `fast_forward("main", "dev")` publishes dev. Raises RefConflictError if `branch` has
        changed since `to` was made of it or merged it.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2]}))
            >>> _ = table.create_branch("dev").insert(pa.table({"id": [3]}))
            >>> table.branches.fast_forward("main", "dev").updated_ref
            2
        """
        return fast_forward(self.snapshot, branch, to, copy)
