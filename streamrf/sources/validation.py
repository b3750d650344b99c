"""Checks of input: it becomes a plain array, or an error says why not."""

from numbers import Real
from posixpath import normpath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import (
    DataError,
    ParameterError,
    ShapeError,
    check_no_text,
    check_readable,
    check_undated,
    warn,
)
from streamrf.sources.labels import check_listed, check_text, no_text
from streamrf.sources.sparse import SparseRows, is_scipy_sparse

MAX_EXACT = 2**53  # up to which every integer is a float


def matrix_dtype(dtype: Any, where: str) -> np.dtype[Any]:
    """Return the dtype of `Block` for rows of `dtype`: uint8, int16, float32 or float64.

    bool becomes uint8; int8 int16; float16 float32; every other integer or float float64. Raises
    ShapeError for strings, dates, records and complex numbers; `where` names the data.

    Examples
    --------
    >>> matrix_dtype("int8", "X"), matrix_dtype("uint16", "X")
    (dtype('int16'), dtype('float64'))
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        raise ShapeError(
            f"Complex data not supported: {where} is {dtype}; give the real and imaginary parts as"
            " columns"
        )
    if dtype.names:
        raise ShapeError(
            f"{where} has records with the fields {', '.join(dtype.names)}; expected numbers: "
            "write the fields as columns of one dataset, or read them into a table (pandas)"
        )
    if dtype.kind not in "biuf":
        raise ShapeError(f"{where} has dtype {dtype}; expected numbers (bool, integer or float)")
    if dtype.kind == "b" or (dtype.kind == "u" and dtype.itemsize == 1):
        return np.dtype(np.uint8)
    if dtype.kind == "i" and dtype.itemsize <= 2:
        return np.dtype(np.int16)
    if dtype.kind == "f" and dtype.itemsize <= 4:
        return np.dtype(np.float32)
    return np.dtype(np.float64)


def as_matrix(X: Any, where: str) -> Any:
    """Return rows as a C-contiguous matrix, (n_rows, n_features), `X` itself if it is one.

    So it does with `SparseRows`.

    Parameters
    ----------
    X : array-like of shape (n_rows, ...), numbers; rank above 2 is flattened row by row
    where : the data, for messages

    Raises
    ------
    ShapeError
        Rank 0 or 1, no columns, ragged rows, or a dtype without numbers.
    DataError
        A sparse matrix, or objects that are not numbers.
    """
    if isinstance(X, SparseRows):
        return X
    X = as_numbers(X, where)
    check_rank(X.shape, where)
    flat = X.reshape(len(X), int(np.prod(X.shape[1:])))
    warn_of_rounded(flat, where)
    return np.ascontiguousarray(flat, dtype=matrix_dtype(X.dtype, where))


def warn_of_rounded(X: NDArray[Any], where: str) -> None:
    """Warn of integers that float64 does not hold exactly."""
    if (one := rounded_integer(X)) is not None:
        warn(
            f"{where} has integers such as {one}, which are rounded, since features take floats of "
            "53 bits; take a constant from the column before, or leave it out if it is a key"
        )


def rounded_integer(values: NDArray[Any]) -> Any:
    """Return an integer of an array that float64 does not hold exactly, or None."""
    is_long = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size > 0
    if not is_long or max(int(values.max()), -int(values.min())) <= MAX_EXACT:
        return None
    with np.errstate(invalid="ignore"):
        is_other = values.astype(np.float64).astype(values.dtype) != values
    return values[is_other][0] if is_other.any() else None


def as_numbers(X: Any, where: str) -> NDArray[Any]:
    """Return `X` as an array of numbers, of any rank; raises as `as_matrix` does."""
    if is_scipy_sparse(X):
        raise DataError(
            f"{where} is a sparse matrix of shape {X.shape}; give it to open_source(X, y=y) or make"
            " it dense a block of rows at a time, with IteratorSource((X[i:i + 4096].toarray(),"
            " y[i:i + 4096]) for i in range(0, n_rows, 4096))"
        )
    check_readable(X, where)
    if not isinstance(X, np.ndarray | list | tuple):
        check_undated(X, where)
        check_no_text(X, where)
    try:
        X = np.asarray(X)
    except ValueError as error:
        raise ShapeError(f"{where} is not a matrix: its rows differ in length ({error})") from error
    if X.dtype.kind == "O":
        check_undated(X, where)
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            if any(isinstance(value, str | bytes) for value in X.ravel().tolist()):
                raise DataError(
                    f"{where} holds text ({error}), which a table may: give a DataFrame or the "
                    "file of one, or turn it into numbers first"
                ) from error
            raise DataError(
                f"{where} holds objects that are not numbers ({error}); turn them into numbers"
                " first"
            ) from error
    matrix_dtype(X.dtype, where)
    return X


def check_rank(shape: tuple[int, ...], where: str) -> None:
    """Raise ShapeError if rank is 0 or 1, or there are no columns."""
    if len(shape) < 2:
        raise ShapeError(
            f"{where} has shape {shape}; expected 2-D, (n_rows, n_features). Reshape your data with"
            " X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if it is one row"
        )
    if not np.prod(shape[1:]):
        raise ShapeError(f"{where}: 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def check_no_grid(x_shape: tuple[int, ...], y: Any, where: str) -> None:
    """Raise ShapeError where targets are a grid, one for each place on the first axes of X.

    Rows of X would be lines of pixels, or whole series, with many targets each.
    """
    y_shape = () if y is None else y.shape
    if len(y_shape) > 1 and y_shape == x_shape[:-1]:
        raise ShapeError(
            f"{where} has shape {x_shape} and y {y_shape}, one for each place on all axes of X but "
            f"the last; make these the rows: X.reshape(-1, {x_shape[-1]}) and y.reshape(-1), or "
            "keep both in an HDF5 file, which is read so"
        )


def as_targets(y: Any, n_rows: int, where: str) -> NDArray[Any]:
    """Return targets or labels, (n_rows,) or (n_rows, n_targets), as numbers or strings.

    One column becomes (n_rows,). Bytes and objects, as HDF5 returns strings, become NumPy strings.
    Raises ShapeError for another rank or length, DataError for other values and for a mixture of
    both.

    Examples
    --------
    >>> as_targets(np.array([b"cat", b"dog"], dtype=object), 2, "y")
    array(['cat', 'dog'], dtype='<U3')
    """
    if is_scipy_sparse(y):
        raise DataError(
            f"{where} is a sparse matrix; sparse data is not supported: use y.toarray()"
        )
    check_listed(y, where)
    check_readable(y, where)
    if not isinstance(y, np.ndarray | list | tuple):
        check_undated(y, where)
    try:
        y = np.asarray(y)
    except ValueError as error:
        raise ShapeError(f"{where} is ragged: its rows differ in length ({error})") from error
    check_targets_shape(y.shape, n_rows, where)
    y = y.reshape(n_rows, *target_shape(y.shape))
    if y.dtype.kind in "OT":  # T: NumPy strings of variable width
        y = _from_objects(y.astype(object), where)
    elif y.dtype.kind == "S":
        y = _decoded(y, where)
    if y.dtype.kind not in "biufU":
        raise DataError(f"{where} has dtype {y.dtype}; expected numbers or strings")
    if y.dtype.kind == "U":
        check_text(y, where)
    return y


def check_roles(y: Any, weights: Any, where: str) -> None:
    """Raise ParameterError if one dataset, by its name, is asked for as targets and as weights."""
    targets = [y] if isinstance(y, str) else y if isinstance(y, list | tuple) else ()
    ours = {normpath(f"/{str(name).strip().lstrip('/')}") for name in targets}
    if isinstance(weights, str) and normpath(f"/{weights.lstrip('/')}") in ours:
        raise ParameterError(
            f"{where}: {y!r} is asked for both as targets and as weights; name another for one of "
            "them: y= or weights= (--y, --weights)"
        )


def one_name(wanted: Any, role: str, where: str) -> Any:
    """Return the name in a list of one, as tables take lists; ParameterError for several."""
    if not isinstance(wanted, list | tuple):
        return wanted
    if len(wanted) != 1:
        raise ParameterError(
            f"{role} names the columns {list(wanted)} of a table, and {where} is none; name one "
            f"dataset: {role}= (--{role})"
        )
    return wanted[0]


def check_names(where: str, **named: Any) -> None:
    """Raise ParameterError for a name of a dataset, by its argument, that is no text.

    Those of several targets may be a list.
    """
    for role, given in named.items():
        several = role == "y" and isinstance(given, list | tuple) and len(given) > 0
        if not all(
            name is None or isinstance(name, str) for name in (given if several else [given])
        ):
            raise ParameterError(
                f"{where}: {role} is the name of one dataset, as text, got {given!r}"
            )


def how_to_name(argument: str) -> str:
    """Return what to do about a dataset or column that is not there."""
    return f"name it with {argument}= (--{argument})"


def check_targets_shape(shape: tuple[int, ...], n_rows: int, where: str) -> None:
    """Raise ShapeError if the rank of targets is not 1 or 2, or their length not that of X."""
    if not shape or (len(shape) > 2 and target_shape(shape)) or 0 in shape[1:]:
        raise ShapeError(f"{where} has shape {shape}; expected (n_rows,) or (n_rows, n_targets)")
    _check_length(shape, n_rows, where)


def target_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one target of an array of them: (n_targets,), or () of one column."""
    return () if set(shape[1:]) <= {1} else shape[1:]


def weight_column(weights: Any, n_rows: int, where: str) -> NDArray[Any]:
    """Return sample weights as float64 of shape (n_rows,), their values not checked."""
    weights = as_numbers(weights, where)
    check_weights_shape(weights.shape, n_rows, where)
    return np.ascontiguousarray(weights, dtype=np.float64)


def targets_and_weights(
    y: Any, weights: Any, n_rows: int, where: str = "y", weights_where: str = "weights"
) -> tuple[Any, Any]:
    """Return what `as_targets` and `weight_column` make of targets and weights, None of None."""
    return (
        None if y is None else as_targets(y, n_rows, where),
        None if weights is None else weight_column(weights, n_rows, weights_where),
    )


def check_weights_shape(shape: tuple[int, ...], n_rows: int, where: str) -> None:
    """Raise ShapeError if weights are not one number for each row."""
    if len(shape) != 1:
        raise ShapeError(f"{where} has shape {shape}; expected one weight a row, (n_rows,)")
    _check_length(shape, n_rows, where)


def _check_length(shape: tuple[int, ...], n_rows: int, where: str) -> None:
    if shape[0] != n_rows:
        raise ShapeError(
            f"{where} has {shape[0]} rows but X has {n_rows}; they must have the same rows"
        )


def _decoded(y: NDArray[Any], where: str) -> NDArray[Any]:
    """Bytes as strings."""
    try:
        return np.char.decode(y, "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where} holds strings that are not UTF-8 text ({error})") from error


def _is_missing(value: Any) -> bool:
    """Return whether an object stands for no value; those but None differ from themselves."""
    try:
        return value is None or bool(value != value)
    except Exception:  # whatever comparing it raises; of pandas' NA it is not told
        return type(value).__name__ == "NAType"


def _from_objects(y: NDArray[Any], where: str) -> NDArray[Any]:
    """All strings or all numbers, out of an array of objects."""
    values = y.ravel().tolist()
    text = [isinstance(value, str | bytes) for value in values]
    if all(text):
        try:
            strings = [v.decode() if isinstance(v, bytes) else v for v in values]
        except UnicodeDecodeError as error:
            raise DataError(f"{where} holds strings that are not UTF-8 text ({error})") from error
        for i, string in enumerate(strings):
            if "\0" in string:  # at the end, an array of strings would lose it
                raise no_text(where, i // (y.size // len(y)), string)
        return np.array(strings, dtype=np.str_).reshape(y.shape)
    numbers = [isinstance(value, Real | np.bool_) for value in values]
    if all(numbers):
        return np.array(values).reshape(y.shape)
    claims = text if text[0] else numbers
    missing = [_is_missing(value) for value in values]
    odd = missing.index(True) if any(missing) else claims.index(False)
    row = f"{where}, row {odd // max(1, y.size // len(y))}"
    if missing[odd]:
        raise DataError(f"{row} is missing ({values[odd]!r}); take such rows out")
    raise DataError(
        f"{row}: {values[odd]!r} is {'not a string' if text[0] else 'not a number'}; expected all"
        " strings or all numbers"
    )
