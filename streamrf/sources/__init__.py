"""Sources of rows."""

from streamrf.sources.arrays import ArraySource
from streamrf.sources.base import Arrays, Block, Source, Store, check_rows, joined, require_source
from streamrf.sources.checksums import checksum
from streamrf.sources.columns import Columns
from streamrf.sources.dask_array import DaskArraySource
from streamrf.sources.deformed import Deformation, deformed_mnist
from streamrf.sources.derived import (
    in_order,
    named,
    names_of,
    reread,
    target_places,
    without_targets,
)
from streamrf.sources.doubts import is_number
from streamrf.sources.frames import as_known, check_no_frame
from streamrf.sources.hashing import hashed, uniform
from streamrf.sources.hdf5 import HDF5Source
from streamrf.sources.hdf5_files import browsed, has_signature
from streamrf.sources.hdf5_names import MAX_SHOWN, Entry, entries_of
from streamrf.sources.iterator import IteratorSource
from streamrf.sources.labels import (
    as_labels,
    check_known,
    check_listed,
    find_labels,
    is_one_hot,
    join_labels,
    narrowed,
    same_labels,
    without_gaps,
)
from streamrf.sources.ledger import Ledger
from streamrf.sources.opening import (
    are_names,
    as_source,
    is_file_of,
    is_for_source,
    is_known,
    is_lazy,
    open_files,
    open_source,
)
from streamrf.sources.paths import path_of, version
from streamrf.sources.reader import read_ahead
from streamrf.sources.rows import Rows, as_rows, of_targets, warn_of_unseen
from streamrf.sources.seekable import SeekableSource, check_each_once
from streamrf.sources.sparse import SparseRows, by_columns, dense_pieces, stacked
from streamrf.sources.standard_input import open_text
from streamrf.sources.store_folders import stored_files
from streamrf.sources.stored import MatrixSource
from streamrf.sources.table_stream import TableStream
from streamrf.sources.tables import TableSource
from streamrf.sources.urls import bare, is_url, state_at
from streamrf.sources.validation import as_matrix, as_targets, rounded_integer, weight_column
from streamrf.sources.weighted import (
    BALANCED,
    ClassWeight,
    ClassWeighted,
    Known,
    Unlabelled,
    check_class_weight,
    check_named,
    class_factors,
    known_by,
    named_factors,
)

__all__ = [
    "BALANCED",
    "MAX_SHOWN",
    "ArraySource",
    "Arrays",
    "Block",
    "ClassWeight",
    "ClassWeighted",
    "Columns",
    "DaskArraySource",
    "Deformation",
    "Entry",
    "HDF5Source",
    "IteratorSource",
    "Known",
    "Ledger",
    "MatrixSource",
    "Rows",
    "SeekableSource",
    "Source",
    "SparseRows",
    "Store",
    "TableSource",
    "TableStream",
    "Unlabelled",
    "are_names",
    "as_known",
    "as_labels",
    "as_matrix",
    "as_rows",
    "as_source",
    "as_targets",
    "bare",
    "browsed",
    "by_columns",
    "check_class_weight",
    "check_each_once",
    "check_known",
    "check_listed",
    "check_named",
    "check_no_frame",
    "check_rows",
    "checksum",
    "class_factors",
    "deformed_mnist",
    "dense_pieces",
    "entries_of",
    "find_labels",
    "has_signature",
    "hashed",
    "in_order",
    "is_file_of",
    "is_for_source",
    "is_known",
    "is_lazy",
    "is_number",
    "is_one_hot",
    "is_url",
    "join_labels",
    "joined",
    "known_by",
    "named",
    "named_factors",
    "names_of",
    "narrowed",
    "of_targets",
    "open_files",
    "open_source",
    "open_text",
    "path_of",
    "read_ahead",
    "require_source",
    "reread",
    "rounded_integer",
    "same_labels",
    "stacked",
    "state_at",
    "stored_files",
    "target_places",
    "uniform",
    "version",
    "warn_of_unseen",
    "weight_column",
    "without_gaps",
    "without_targets",
]
