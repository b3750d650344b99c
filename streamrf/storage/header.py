"""The user block: what a file is, how long it is, and the digest of all the rest."""

import hashlib
import io
import os
import re
from dataclasses import dataclass

from streamrf.errors import FormatError
from streamrf.storage.base import FORMAT_VERSION, HDF5_SIGNATURE, KIND, USER_BLOCK, StoredArray

_START = rb"streamrf (\d{1,9})\nkind "
_HEADER = re.compile(
    rb"(%b(%b)\nlength (\d{1,18})\n"
    rb"tree (\d{1,18}) (\d{1,18})\n)sha256 ([0-9a-f]{64})\n" % (_START, KIND.pattern.encode())
)
_NOTE = "\nHDF5 from byte 512 on. A file that another program changed is refused when loaded.\n"


@dataclass(frozen=True)
class Header:
    """What the user block holds. Its lines keep their meaning in every later version."""

    lines: bytes  # those before the digest, which covers them
    version: int
    kind: str
    length: int  # of the file, in bytes
    tree_offset: int
    tree_bytes: int
    sha256: str


def first_lines(kind: str, length: int, text: StoredArray) -> bytes:
    """Return the lines before the digest."""
    return (
        f"streamrf {FORMAT_VERSION}\nkind {kind}\nlength {length}\n"
        f"tree {text.offset} {text.stored.nbytes}\n"
    ).encode("ascii")


def render(lines: bytes, sha256: str) -> bytes:
    """Return the user block."""
    block = lines + f"sha256 {sha256}\n{_NOTE}".encode("ascii")
    return block.ljust(USER_BLOCK - 1) + b"\n"


def is_saved(path: str, kind: str = "") -> bool:
    """Return whether a file begins as those that are saved do, of a kind or any, whole or not."""
    start = _START + (f"{kind}\n".encode() if kind else b"")
    with open(path, "rb") as file:
        return re.match(start, file.read(USER_BLOCK)) is not None


def parse(file: io.BufferedReader, name: str) -> Header:
    """Return the header of a file; raise FormatError if its length is not as the header says."""
    block = file.read(USER_BLOCK)
    match = _HEADER.match(block)
    if not match:
        if block.startswith(HDF5_SIGNATURE):
            raise FormatError(
                f"{name} is an HDF5 file but not one of streamrf; if it has rows, give it in the "
                "place of data (HDF5Source), and a copy made by another HDF5 program has lost the "
                "header that loading needs"
            )
        found = "is empty" if not block else "is no file of streamrf, or its start is damaged"
        raise FormatError(f"{name} {found}; give a file that streamrf has saved")
    lines, version, kind, *numbers, sha256 = match.groups()
    length, tree_offset, tree_bytes = map(int, numbers)
    actual = os.fstat(file.fileno()).st_size
    if actual != length:
        raise FormatError(
            f"{name} is cut short or has grown: it should have {length} bytes and has {actual}; "
            "copy it again or make it again"
        )
    return Header(
        lines, int(version), kind.decode(), length, tree_offset, tree_bytes, sha256.decode()
    )


def check_digest(file: io.BufferedReader, header: Header, name: str) -> None:
    """Read the file through; raise FormatError if its digest is not the header's."""
    digest = hashlib.sha256(header.lines)
    file.seek(USER_BLOCK)
    buffer = memoryview(bytearray(2**20))
    while count := file.readinto(buffer):
        digest.update(buffer[:count])
    if digest.hexdigest() != header.sha256:
        raise FormatError(
            f"{name} is damaged or was changed by another program: its SHA-256 digest differs from "
            "the one it was saved with; copy it again or make it again"
        )
