"""Pages of storage 2.0, from Arrow arrays: a column for every struct, list and leaf, each in its simplest encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.buffers.blocks import Block, FixedSizeList, FixedWidth, VariableWidth
from lance_spark.encodings import general
from lance_spark.encodings.flat import Flat
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.values.to_blocks import to_block
from lance_spark.reading.flat_buffers import offsets_of, validity_of
from lance_spark.schema.schema import Field, Schema

_SCHEMES: Mapping[str | None, general.Scheme] = {"lz4": "lz4", "zstd": "zstd"}

ENCODING_TYPE = "lance.encodings.ArrayEncoding"


def columns(schema: Schema) -> Iterator[Field]:
    """The fields that own a column, in column order. Raises UnsupportedFeatureError for a type that storage 2.0 cannot hold."""
    for field in schema.fields:
        yield from _columns(field)


def _columns(field: Field) -> Iterator[Field]:
    kind = field.logical_type.split(":")[0]
    if kind == "map" or (kind == "fixed_size_list" and field.children):
        raise UnsupportedFeatureError(f"column {field.name!r}: type {field.type} is not supported in storage version 2.0; use 2.2")
    yield field
    if not field.is_packed:
        for child in field.children:
            yield from _columns(child)


def split(field: Field, array: pa.Array) -> Iterator[pa.Array]:
    """The arrays for the columns of `field`: for a struct a null array, for a list the lists with items of null type."""
    if _is_struct(field):
        if array.null_count:
            nulls = f"column {field.name!r}: {array.null_count} null structs"
            raise UnsupportedFeatureError(f"{nulls} are not supported in storage version 2.0; use 2.1")
        yield pa.nulls(len(array))
        for i, child in enumerate(field.children):
            yield from split(child, array.field(i))
    elif _is_list(field):
        offsets = offsets_of(pc.fill_null(pc.list_value_length(array), 0).to_numpy(), large=True)
        validity = validity_of(array.is_valid().to_numpy(zero_copy_only=False))
        shape = pa.large_list(pa.null())
        yield pa.Array.from_buffers(shape, len(array), [validity, pa.py_buffer(offsets)], children=[pa.nulls(int(offsets[-1]))])
        # `flatten` omits the items of null lists.
        yield from split(field.children[0], array.flatten())
    else:
        yield array


def encode_pages(field: Field, array: pa.Array) -> list[EncodedPage]:
    """The page (always one) of `array`, one of the arrays of `split` for `field`, which owns the column."""
    page = _Page(EncodingOptions.of(field))
    if field.is_blob:
        array = _without_nulls(array)
    if _is_struct(field):
        encoding = pb.ArrayEncoding(struct={})
    elif _is_list(field):
        encoding = page.lists(array)
    else:
        encoding = page.values(array, field.name)
    message = encoding.SerializeToString(deterministic=True)
    return [EncodedPage(ENCODING_TYPE, message, tuple(page.buffers), len(array))]


def _without_nulls(descriptors: pa.StructArray) -> pa.StructArray:
    """The descriptors of blobs, with position 1 and size 0 for nulls."""
    null = descriptors.is_null()
    values = [pc.if_else(null, pa.scalar(n, pa.uint64()), descriptors.field(i)) for i, n in enumerate((1, 0))]
    return pa.StructArray.from_arrays(values, names=["position", "size"])


def _is_struct(field: Field) -> bool:
    return field.logical_type == "struct" and not field.is_packed


def _is_list(field: Field) -> bool:
    return field.logical_type.split(".")[0] in ("list", "large_list")


class _Page:
    """Collects the buffers of one page while its encoding message is built."""

    def __init__(self, options: EncodingOptions) -> None:
        self.buffers: list[np.ndarray] = []
        self._options = options

    def _buffer(self, data: np.ndarray) -> pb.Buffer:
        self.buffers.append(data.view(np.uint8))
        return pb.Buffer(buffer_index=len(self.buffers) - 1)

    def _flat(self, bits: int, data: np.ndarray) -> pb.ArrayEncoding:
        return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits, buffer=self._buffer(data)))

    def lists(self, array: pa.Array) -> pb.ArrayEncoding:
        """The ends of lists; the items of `array` are those of its valid lists."""
        ends, adjustment = _ends(np.diff(array.offsets.to_numpy()), array)
        return pb.ArrayEncoding(
            list=pb.List(offsets=_no_nulls(self._flat(64, ends)), null_offset_adjustment=adjustment, num_items=adjustment - 1)
        )

    def values(self, array: pa.Array, name: str) -> pb.ArrayEncoding:
        """The values of a leaf, of the column `name`."""
        if pa.types.is_dictionary(array.type):
            return self._dictionary(array, name)
        if pa.types.is_struct(array.type):
            return self._packed_struct(array, name)
        if pa.types.is_null(array.type) or (len(array) and array.null_count == len(array)):
            return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls={}))
        block = to_block(array)
        if isinstance(block, VariableWidth):
            return self._strings(block, array)
        validity = validity_of(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None
        return self._nullable(block, None if validity is None else np.frombuffer(validity, dtype=np.uint8), name)

    def _nullable(self, block: Block, validity: np.ndarray | None, name: str) -> pb.ArrayEncoding:
        if validity is None:
            return _no_nulls(self._fixed_width(block, name))
        bitmap = self._flat(1, validity)
        some_nulls = pb.Nullable.SomeNull(validity=bitmap, values=self._fixed_width(block, name))
        return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some_nulls))

    def _fixed_width(self, block: Block, name: str) -> pb.ArrayEncoding:
        if isinstance(block, FixedWidth):
            return self._flat(block.bits, block.data)
        if isinstance(block, FixedSizeList):
            items = self._nullable(block.items, block.validity, name)
            return pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=block.dimension, items=items))
        raise UnsupportedFeatureError(f"column {name!r}: fixed-size lists of variable-width values are not supported")

    def _strings(self, block: VariableWidth, array: pa.Array) -> pb.ArrayEncoding:
        ends, adjustment = _ends(np.diff(block.offsets), array)
        offsets = _no_nulls(self._flat(64, ends))
        scheme = _SCHEMES.get(self._options.compression)
        if scheme is None:
            data = self._flat(8, block.data)
        else:
            level = self._options.level
            _, packed = general.encode_block((Flat(8), block.data.tobytes()), scheme, level)
            data = self._flat(8, np.frombuffer(packed, dtype=np.uint8))
            data.flat.compression.scheme = scheme
            if level is not None:
                data.flat.compression.level = level
        return pb.ArrayEncoding(binary=pb.Binary(indices=offsets, bytes=data, null_adjustment=adjustment))

    def _dictionary(self, array: pa.Array, name: str) -> pb.ArrayEncoding:
        """Indices without nulls: a null row refers to a null item.

        Readers take the indices for those of the column's type: of a signed one, half of the bits' values are below 0.
        """
        indices, items, index_type = array.indices, array.dictionary, array.indices.type
        if indices.null_count:
            null_item = pc.index(items.is_null(), True).as_py() if items.null_count else -1
            if null_item < 0:
                null_item = len(items)
                items = pa.concat_arrays([items, pa.nulls(1, items.type)])
            indices = pc.fill_null(indices.cast(pa.int64()), null_item)
        bits = index_type.bit_width
        most = 2 ** (bits - 1 if pa.types.is_signed_integer(index_type) else bits)
        if len(items) > most:
            raise UnsupportedFeatureError(
                f"column {name!r}: {len(items)} dictionary items, including null, are too many for indices of the type {index_type} in a "
                f"file of storage version 2.0, which can have {most}; write storage version 2.1 or later, or a wider type of indices"
            )
        encoded = self.values(indices.cast(f"uint{bits}"), name)
        return pb.ArrayEncoding(dictionary=pb.Dictionary(indices=encoded, items=self.values(items, name), num_dictionary_items=len(items)))

    def _packed_struct(self, array: pa.Array, name: str) -> pb.ArrayEncoding:
        """The rows of all children side by side; each child has an encoding, which refers to the shared buffer."""
        rows, inner = [], []
        for field, child in zip(array.type, array.flatten()):
            data, encoding = _flattened(to_block(child), pb.Buffer(buffer_index=0))
            if child.null_count or data is None or encoding is None:
                where = f"column {name!r}: writing a packed struct"
                raise UnsupportedFeatureError(
                    f"{where} whose field {field.name!r} is of type {field.type}, or has nulls, are not supported"
                )
            rows.append(data.reshape(len(array), -1))
            inner.append(encoding)
        buffer = self._buffer(np.concatenate(rows, axis=1).reshape(-1))
        return pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=inner, buffer=buffer))


def _flattened(block: Block, buffer: pb.Buffer) -> tuple[np.ndarray | None, pb.ArrayEncoding | None]:
    """The bytes and the encoding of values of whole bytes without nulls; None for other values."""
    if isinstance(block, FixedWidth) and block.bits % 8 == 0:
        return block.data, _no_nulls(pb.ArrayEncoding(flat=pb.Flat(bits_per_value=block.bits, buffer=buffer)))
    if isinstance(block, FixedSizeList) and block.validity is None:
        data, items = _flattened(block.items, buffer)
        return data, _no_nulls(pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=block.dimension, items=items)))
    return None, None


def _ends(lengths: np.ndarray, array: pa.Array) -> tuple[np.ndarray, int]:
    """The end of each value, plus a number larger than any end for each null of `array`; and that number."""
    ends = np.cumsum(lengths, dtype=np.uint64)
    adjustment = int(ends[-1]) + 1 if len(ends) else 1
    if array.null_count:
        ends += array.is_null().to_numpy(zero_copy_only=False) * np.uint64(adjustment)
    return ends, adjustment


def _no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))
