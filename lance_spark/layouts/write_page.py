"""One page of one leaf column, from an Arrow array to buffers: shred it, choose its encoding, encode it."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.layouts.choose import encoding as choose
from lance_spark.layouts.choose.auto_dictionary import encode_dictionary
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.layouts.choose.nulls_and_constants import constant, with_nulls_filled
from lance_spark.layouts.constant import write as write_constant
from lance_spark.layouts.full_zip import write as write_full_zip
from lance_spark.layouts.levels.shred import shred
from lance_spark.layouts.levels.write import MAX_CHUNK_VALUES, max_chunk_values
from lance_spark.layouts.mini_block import write as write_mini_block
from lance_spark.layouts.mini_block.small import encode_small
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.schema.schema import Field


def encode_pages(field: Field, array: pa.Array, grammar: Grammar) -> list[EncodedPage]:
    """The pages, usually one, of `array`, one of the arrays of `split` for the leaf `field`."""
    if (small := encode_small(field, array, grammar)) is not None:
        return [small]
    page = shred(field, array)
    if page.values is None:
        return [write_constant.encode_nulls(page, grammar)]
    page = with_nulls_filled(page)
    if page.dictionary is None and choose.may_be_constant(page, grammar):
        value = constant(page)
        if value is not None:
            return [write_constant.encode_value(page, value, grammar)]
    options = EncodingOptions.of(field)
    sparse = grammar.planar and options.structure == "sparse" and (page.repetition is not None or page.definition is not None)
    max_values = MAX_CHUNK_VALUES if sparse else max_chunk_values(page, grammar)
    if not max_values and len(array) > 1:
        # The page has a longer run of events without a value than fits in a chunk. Pages with fewer rows have fewer events.
        half = len(array) // 2
        return [*encode_pages(field, array[:half], grammar), *encode_pages(field, array[half:], grammar)]
    values, dictionary = page.values, page.dictionary
    assert values is not None
    if dictionary is None and max_values:
        values, dictionary = choose.make_dictionary(values, options, grammar) or (values, None)
    if dictionary is not None and not max_values:
        raise UnsupportedFeatureError(
            f"column {field.name!r}: dictionary values in a row with tens of thousands of empty lists are not supported"
        )
    if dictionary is None and (not max_values or choose.is_wide(values, options)):
        return [write_full_zip.encode(page, *choose.encode_single_values(values, options), grammar)]
    items = None if dictionary is None else encode_dictionary(dictionary, options, grammar)
    encode = write_mini_block.encode_sparse if sparse else write_mini_block.encode
    return [encode(page, choose.encode_chunks(values, max_values, options, grammar), items, grammar)]
