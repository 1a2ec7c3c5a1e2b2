"""Functions of users that compute a column: rows, pandas Series, Arrow arrays or whole batches in, as their annotations say.

`lance_udf` describes a function. A class is built on the worker, once in each process and run, so that a model loads once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lance_spark.errors import FunctionFailedError, InvalidOptionError, LanceError, check_at_least, check_type
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.write.conform import check_fits, conform

Kind = Literal["rows", "arrow", "pandas", "frame", "batch"]
OnError = Literal["fail", "null", "skip"]
ON_ERROR = typing.get_args(OnError)
_MESSAGE = 500
"""The characters of an error's message that are kept with the row."""


@dataclass(frozen=True)
class LanceFunction:
    """A function and what is known of it, see `lance_udf`. `arguments` are those of the constructor of a class."""

    function: Callable[..., Any]
    data_type: Any = None
    version: str | None = None
    inputs: tuple[str, ...] | None = None
    batch_size: int | None = None
    arguments: tuple[tuple[Any, ...], dict[str, Any]] = field(default=((), {}))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. If it is a class, keep the arguments of its constructor, which the workers call."""
        if isinstance(self.function, type):
            return dataclasses.replace(self, arguments=(args, kwargs))
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    @property
    def called(self) -> Callable[..., Any]:
        """What is called with values: the function, or the method of the class or object. Raises InvalidOptionError if there is none."""
        if isinstance(self.function, functools.partial):
            return self.function.func
        if inspect.isroutine(self.function):
            return self.function
        owner = self.function if isinstance(self.function, type) else type(self.function)
        methods = (vars(base)["__call__"] for base in owner.__mro__ if "__call__" in vars(base))
        found: Callable[..., Any] | None = next(methods, None)
        if found is None:
            raise InvalidOptionError(f"the class {self.name} has no method __call__, which is to compute the values")
        return found

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that get values: those without a default."""
        is_class = isinstance(self.function, type)
        found = list(inspect.signature(self.called if is_class else self.function).parameters.values())[1 if is_class else 0 :]
        return [p.name for p in found if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]

    @property
    def kind(self) -> Kind:
        """What the function receives, by the annotation of its first parameter: without one of these, the values of one row."""
        names = self.parameters
        try:
            hints = typing.get_type_hints(self.called)
        except (NameError, TypeError):
            hints = getattr(self.called, "__annotations__", {})
        hint = hints.get(names[0]) if names else None
        if isinstance(hint, str):
            hint_name, module = hint.rpartition(".")[2], ""
        else:
            hint_name, module = getattr(hint, "__name__", ""), getattr(hint, "__module__", "")
        if hint_name == "RecordBatch":
            return "batch"
        if module.startswith("pandas") or not module:
            kinds: dict[str, Kind] = {"Series": "pandas", "DataFrame": "frame"}
            if hint_name in kinds:
                return kinds[hint_name]
        is_array = isinstance(hint, type) and issubclass(hint, pa.Array | pa.ChunkedArray)
        return "arrow" if is_array or hint_name in ("Array", "ChunkedArray") else "rows"

    def built(self) -> Callable[..., Any]:
        """The function, or the object of the class, that is called with values."""
        if not isinstance(self.function, type):
            return self.function
        args, kwargs = self.arguments
        try:
            return typing.cast(Callable[..., Any], self.function(*args, **kwargs))
        except Exception as e:
            raise FunctionFailedError(f"the constructor of {self.name} failed: {_said(e)}") from e


def lance_udf(
    data_type: Any = None, version: str | None = None, inputs: Sequence[str] | None = None, batch_size: int | None = None
) -> Callable[[Callable[..., Any]], LanceFunction]:
    """Describe a function, or a class with the method `__call__`, for `LanceTable.backfill`.

    `data_type` is the type of its results: an Arrow type or field, or a Spark type or its name. `version` stands for what it computes:
    results of another version are computed again; by default, it is derived from the code. `inputs` are the columns that it receives, by
    default those with the names of its parameters. `batch_size` is the number of rows in a call, by default as many as take a
    fraction of a second.

    The annotation of the first parameter says what the function receives: `pa.Array` or `pd.Series` for each input, one
    `pa.RecordBatch` or `pd.DataFrame` with all inputs, or else Python values of one row. It returns the values of as many rows.

    Examples:
        >>> from lance_spark import lance_udf
        >>> @lance_udf("int", version="1")
        ... def length(text):
        ...     return len(text)
        >>> length("four")
        4
    """
    if version is not None:
        check_type("version", version, str, "text, such as '1'")
    if isinstance(inputs, str):
        raise TypeError(f"inputs must be a sequence of names, not text; pass [{inputs!r}]")
    if batch_size is not None:
        check_at_least("batch_size", batch_size, 1)

    def described(function: Callable[..., Any]) -> LanceFunction:
        return LanceFunction(function, data_type, version, None if inputs is None else tuple(inputs), batch_size)

    return described


def as_function(function: Callable[..., Any] | LanceFunction) -> LanceFunction:
    """The described function. Raises TypeError for anything that cannot be called."""
    if isinstance(function, LanceFunction):
        return function
    if not callable(function):
        raise TypeError(f"the function must be a function or a class, not {function!r}")
    return LanceFunction(function)


@dataclass(frozen=True)
class Caller:
    """Calls a built function with batches, whose columns are the inputs; the results are values of the column `field`."""

    call: Callable[..., Any]
    kind: Kind
    name: str
    field: Field
    on_error: OnError

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[str | None]]:
        """The value of each row, null if it failed, and the message of its error. Raises FunctionFailedError if errors are not noted."""
        parts = list(self._by_row(batch) if self.kind == "rows" else self._by_parts(batch))
        values = [values for values, _ in parts]
        messages = [message for _, of_part in parts for message in of_part]
        return values[0] if len(values) == 1 else pa.concat_arrays(values), messages

    def _by_row(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.Array, list[str | None]]]:
        columns = [column.to_pylist() for column in batch.columns]
        values: list[Any] = []
        messages: list[str | None] = []
        for row in zip(*columns):
            try:
                values.append(self.call(*row))
                messages.append(None)
            except Exception as e:  # noqa: BLE001 (whatever a user's function raises belongs to its row)
                values.append(None)
                messages.append(self._failed(e))
        yield from self._converted(values, messages)

    def _converted(self, values: list[Any], messages: list[str | None]) -> Iterator[tuple[pa.Array, list[str | None]]]:
        """The values of rows, in halves while one of them does not fit the column."""
        try:
            yield self._stored(values, len(values)), messages
        except Exception as e:  # noqa: BLE001 (whatever Arrow raises for the values of a user's function)
            message = self._failed(e)
            if len(values) == 1:
                yield pa.nulls(1, stored_type(self.field)), [message]
                return
            middle = len(values) // 2
            yield from self._converted(values[:middle], messages[:middle])
            yield from self._converted(values[middle:], messages[middle:])

    def _by_parts(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.Array, list[str | None]]]:
        """The values of a batch, in halves while a call fails: only the rows that fail by themselves have no value."""
        try:
            yield self._stored(self._called(batch), batch.num_rows), [None] * batch.num_rows
        except Exception as e:  # noqa: BLE001 (whatever a user's function raises)
            message = self._failed(e)
            if batch.num_rows == 1:
                yield pa.nulls(1, stored_type(self.field)), [message]
                return
            middle = batch.num_rows // 2
            yield from self._by_parts(batch.slice(0, middle))
            yield from self._by_parts(batch.slice(middle))

    def _failed(self, error: Exception) -> str:
        message = _said(error)
        if self.on_error == "fail":
            raise FunctionFailedError(f"the function {self.name} failed: {message}") from error
        return message[:_MESSAGE]

    def _called(self, batch: pa.RecordBatch) -> Any:
        if self.kind == "batch":
            return self.call(batch)
        if self.kind == "frame":
            return self.call(batch.to_pandas())
        if self.kind == "pandas":
            return self.call(*(column.to_pandas() for column in batch.columns))
        return self.call(*batch.columns)

    def _stored(self, result: Any, rows: int) -> pa.Array:
        """What the function returned, as an array of the column's type. Raises FunctionFailedError for another type or number of rows."""
        array = _array(result, self.field)
        if len(array) != rows:
            raise FunctionFailedError(f"it must return {rows} values for as many rows, not {len(array)}")
        given = pa.record_batch([array], names=[self.field.name])
        schema = Schema((dataclasses.replace(self.field, nullable=True) if self.on_error != "fail" else self.field,))
        check_fits(given.schema, schema)
        conformed = conform(given, schema).column(0)
        return array.cast(stored_type(self.field)) if _is_special(self.field) else conformed


def _is_special(field: Field) -> bool:
    """Whether files have the values in another form than they are given in."""
    return field.is_blob or field.logical_type == "json"


def stored_type(field: Field) -> pa.DataType:
    """The type in which results of a column are kept until they are written."""
    return field.type if not _is_special(field) else pa.string() if field.logical_type == "json" else pa.large_binary()


def _array(result: Any, field: Field) -> pa.Array:
    t = stored_type(field)
    if isinstance(result, pa.RecordBatch):
        if result.schema.names != [field.name]:
            raise FunctionFailedError(
                f"it must return the column {field.name!r}, not {', '.join(map(repr, result.schema.names)) or 'none'}"
            )
        result = result.column(0)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Array):
        return result
    if isinstance(result, np.ndarray) and result.ndim == 2 and pa.types.is_fixed_size_list(t):
        if result.shape[1] != t.list_size:
            raise FunctionFailedError(f"it must return vectors of {t.list_size} numbers, not {result.shape[1]}")
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(result).reshape(-1)).cast(t.value_type), type=t)
    if isinstance(result, np.ndarray) and result.ndim > 1:
        result = list(result)
    if hasattr(result, "to_dict") and hasattr(result, "columns"):  # a DataFrame: a struct for each row
        result = result.to_dict("records")
    if isinstance(result, str | bytes) or not hasattr(result, "__len__"):
        raise FunctionFailedError(f"it must return an array or a list of values, not {type(result).__name__}")
    # Series have NaN where a value is missing.
    return pa.array(result, type=t, from_pandas=type(result).__module__.startswith("pandas"))


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, LanceError) else f"{type(error).__name__}: {error}"
