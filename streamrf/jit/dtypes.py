"""Arrays of one dtype, of any shape, in the annotations of kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Numbers = NDArray[Any]  # of any real dtype
