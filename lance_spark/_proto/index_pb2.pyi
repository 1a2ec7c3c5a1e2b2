from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ZoneMapIndexDetails(_message.Message):
    __slots__ = ("rows_per_zone", "use_seeds", "has_null_bitmap")
    ROWS_PER_ZONE_FIELD_NUMBER: _ClassVar[int]
    USE_SEEDS_FIELD_NUMBER: _ClassVar[int]
    HAS_NULL_BITMAP_FIELD_NUMBER: _ClassVar[int]
    rows_per_zone: int
    use_seeds: bool
    has_null_bitmap: bool
    def __init__(self, rows_per_zone: _Optional[int] = ..., use_seeds: bool = ..., has_null_bitmap: bool = ...) -> None: ...

class JsonIndexDetails(_message.Message):
    __slots__ = ("path", "target_details")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TARGET_DETAILS_FIELD_NUMBER: _ClassVar[int]
    path: str
    target_details: _any_pb2.Any
    def __init__(self, path: _Optional[str] = ..., target_details: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class VectorIndexDetails(_message.Message):
    __slots__ = ("hnsw", "pq", "sq", "rq", "flat")
    class Part(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HNSW_FIELD_NUMBER: _ClassVar[int]
    PQ_FIELD_NUMBER: _ClassVar[int]
    SQ_FIELD_NUMBER: _ClassVar[int]
    RQ_FIELD_NUMBER: _ClassVar[int]
    FLAT_FIELD_NUMBER: _ClassVar[int]
    hnsw: VectorIndexDetails.Part
    pq: VectorIndexDetails.Part
    sq: VectorIndexDetails.Part
    rq: VectorIndexDetails.Part
    flat: VectorIndexDetails.Part
    def __init__(self, hnsw: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., pq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., sq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., rq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., flat: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ...) -> None: ...
