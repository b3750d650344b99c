"""Nested dicts of arrays to HDF5 files and back; objects as such trees; untrusted files checked."""

from streamrf.storage.base import HDF5_SIGNATURE, Tree
from streamrf.storage.datasets import Datasets
from streamrf.storage.describe import digest, from_tree, to_tree, tree_bytes
from streamrf.storage.fields import Fields, loading
from streamrf.storage.files import alone, identity, missing_folder, reason, replacing
from streamrf.storage.header import is_saved
from streamrf.storage.trees import read, read_kind, write

__all__ = [
    "HDF5_SIGNATURE",
    "Datasets",
    "Fields",
    "Tree",
    "alone",
    "digest",
    "from_tree",
    "identity",
    "is_saved",
    "loading",
    "missing_folder",
    "read",
    "read_kind",
    "reason",
    "replacing",
    "to_tree",
    "tree_bytes",
    "write",
]
