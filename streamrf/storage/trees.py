"""Trees of arrays and scalars to HDF5 files and back: exact, checked, all or nothing.

A file is HDF5 for every other program, and its user block (the first 512 bytes) is ours: length,
SHA-256 digest, and the offset of a JSON document that describes the tree and says where each array
is (docs/formats.md). libhdf5 touches no file here. `write` lets it lay out an image in memory and
writes the bytes by itself, because on a full disk libhdf5 2.0 failed to close the file, kept it
open, and ended the process with a segmentation fault. `read` checks the digest and takes the arrays
from the offsets given, so that no byte that a stranger may have altered is parsed by C code, and
links, filters or false shapes in the HDF5 part have no effect.
"""

import hashlib
import os

from streamrf.errors import FormatError, ParameterError, check_path
from streamrf.storage.base import FORMAT_VERSION, KIND, USER_BLOCK, Path, StoredArray, Tree
from streamrf.storage.decode import Reader
from streamrf.storage.encode import encode
from streamrf.storage.files import opened, replacing
from streamrf.storage.header import check_digest, first_lines, parse, render
from streamrf.storage.image import lay_out, payload

_KINDS = {  # for messages: in words, and what loads it
    "model": ("a model", "streamrf.load_model"),
    "statistics": ("statistics", "streamrf.load_statistics"),
    "moments": ("moments of columns", "streamrf.load_moments"),
    "checkpoint": ("a checkpoint", "the command or call that wrote it, to go on with its pass"),
}


def write(path: Path, kind: str, tree: Tree) -> None:
    """Write a tree to a file, which appears whole or not at all.

    The bytes go to a temporary file in the same folder, are forced to disk, and the file is then
    renamed. The same tree gives the same bytes. Arrays are written in place, without a copy.

    Parameters
    ----------
    path : path
    kind : str
        What the tree is, "model" or "statistics" for instance; `read` asks for it again.
    tree : dict
        Keys are strings. Values are trees, arrays (bool, integer, float, str), str, int of any
        size, float, bool, None, or lists of these scalars. NumPy scalars become Python's.

    Raises
    ------
    ParameterError
        If the tree holds something else; the message names its keys.
    StorageError
        If the file cannot be written. What was at `path` is then unchanged.
    """
    check_path(path)
    path = os.fsdecode(path)
    if not KIND.fullmatch(kind):
        raise ParameterError(f"kind must be a word of lowercase letters, not {kind!r}")
    arrays: list[StoredArray] = []
    root = encode(tree, (), arrays)
    image, text = lay_out(kind, root, arrays)
    lines = first_lines(kind, image.length, text)
    digest = hashlib.sha256(lines)
    with replacing(path, image.length, " or choose another folder") as file:
        file.write(bytes(USER_BLOCK))
        for piece in payload(image, [*arrays, text]):
            digest.update(piece)
            file.write(piece)
        file.seek(0)
        file.write(render(lines, digest.hexdigest()))


def read(path: Path, kind: str) -> Tree:
    """Read the tree that `write` wrote.

    The digest of the whole file is checked first, so the file is read twice. Nothing larger than
    the file is allocated, and no array is held twice.

    Raises
    ------
    SourceNotFoundError
        If there is no such file.
    StorageError
        If the system cannot read it.
    FormatError
        If it is of another kind, of a later version, damaged, or no file of streamrf.
    """
    check_path(path)
    name = os.fspath(path)
    with opened(path) as file:
        header = parse(file, name)
        check_digest(file, header, name)
        if header.version > FORMAT_VERSION:
            raise FormatError(
                f"{name} has format version {header.version} and this streamrf reads up to "
                f"{FORMAT_VERSION}; upgrade streamrf to load it"
            )
        if header.kind != kind:
            held, load = _KINDS.get(header.kind, (f"a {header.kind}", "what wrote it"))
            wanted = _KINDS.get(kind, (f"a {kind}", ""))[0]
            raise FormatError(f"{name} holds {held}, not {wanted}; load it with {load}")
        try:
            return Reader(file, header.length).tree(header.tree_offset, header.tree_bytes)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise FormatError(
                f"{name} has a correct digest but does not describe a tree ({error}); it was not "
                "written by streamrf"
            ) from error


def read_kind(path: Path) -> str:
    """Return the kind of a file from its header; its digest, kind and version are not checked."""
    check_path(path)
    with opened(path) as file:
        return parse(file, os.fspath(path)).kind
