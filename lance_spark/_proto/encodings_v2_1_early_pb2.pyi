from lance_spark._proto import encodings_v2_0_pb2 as _encodings_v2_0_pb2
from lance_spark._proto import encodings_v2_1_pb2 as _encodings_v2_1_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MiniBlockLayout(_message.Message):
    __slots__ = ("rep_compression", "def_compression", "value_compression", "dictionary", "num_dictionary_items", "layers", "num_buffers", "repetition_index_depth", "num_items")
    REP_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    DEF_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    NUM_DICTIONARY_ITEMS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    REPETITION_INDEX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    NUM_ITEMS_FIELD_NUMBER: _ClassVar[int]
    rep_compression: _encodings_v2_0_pb2.ArrayEncoding
    def_compression: _encodings_v2_0_pb2.ArrayEncoding
    value_compression: _encodings_v2_0_pb2.ArrayEncoding
    dictionary: _encodings_v2_0_pb2.ArrayEncoding
    num_dictionary_items: int
    layers: _containers.RepeatedScalarFieldContainer[_encodings_v2_1_pb2.RepDefLayer]
    num_buffers: int
    repetition_index_depth: int
    num_items: int
    def __init__(self, rep_compression: _Optional[_Union[_encodings_v2_0_pb2.ArrayEncoding, _Mapping]] = ..., def_compression: _Optional[_Union[_encodings_v2_0_pb2.ArrayEncoding, _Mapping]] = ..., value_compression: _Optional[_Union[_encodings_v2_0_pb2.ArrayEncoding, _Mapping]] = ..., dictionary: _Optional[_Union[_encodings_v2_0_pb2.ArrayEncoding, _Mapping]] = ..., num_dictionary_items: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[_encodings_v2_1_pb2.RepDefLayer, str]]] = ..., num_buffers: _Optional[int] = ..., repetition_index_depth: _Optional[int] = ..., num_items: _Optional[int] = ...) -> None: ...

class FullZipLayout(_message.Message):
    __slots__ = ("bits_rep", "bits_def", "bits_per_value", "bits_per_offset", "num_items", "num_visible_items", "value_compression", "layers")
    BITS_REP_FIELD_NUMBER: _ClassVar[int]
    BITS_DEF_FIELD_NUMBER: _ClassVar[int]
    BITS_PER_VALUE_FIELD_NUMBER: _ClassVar[int]
    BITS_PER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NUM_ITEMS_FIELD_NUMBER: _ClassVar[int]
    NUM_VISIBLE_ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALUE_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    bits_rep: int
    bits_def: int
    bits_per_value: int
    bits_per_offset: int
    num_items: int
    num_visible_items: int
    value_compression: _encodings_v2_0_pb2.ArrayEncoding
    layers: _containers.RepeatedScalarFieldContainer[_encodings_v2_1_pb2.RepDefLayer]
    def __init__(self, bits_rep: _Optional[int] = ..., bits_def: _Optional[int] = ..., bits_per_value: _Optional[int] = ..., bits_per_offset: _Optional[int] = ..., num_items: _Optional[int] = ..., num_visible_items: _Optional[int] = ..., value_compression: _Optional[_Union[_encodings_v2_0_pb2.ArrayEncoding, _Mapping]] = ..., layers: _Optional[_Iterable[_Union[_encodings_v2_1_pb2.RepDefLayer, str]]] = ...) -> None: ...

class AllNullLayout(_message.Message):
    __slots__ = ("layers",)
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedScalarFieldContainer[_encodings_v2_1_pb2.RepDefLayer]
    def __init__(self, layers: _Optional[_Iterable[_Union[_encodings_v2_1_pb2.RepDefLayer, str]]] = ...) -> None: ...

class PageLayout(_message.Message):
    __slots__ = ("mini_block_layout", "all_null_layout", "full_zip_layout")
    MINI_BLOCK_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    ALL_NULL_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    FULL_ZIP_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    mini_block_layout: MiniBlockLayout
    all_null_layout: AllNullLayout
    full_zip_layout: FullZipLayout
    def __init__(self, mini_block_layout: _Optional[_Union[MiniBlockLayout, _Mapping]] = ..., all_null_layout: _Optional[_Union[AllNullLayout, _Mapping]] = ..., full_zip_layout: _Optional[_Union[FullZipLayout, _Mapping]] = ...) -> None: ...
