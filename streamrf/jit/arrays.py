"""Names of the types of arrays, for signatures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Numbers = NDArray[Any]  # of any real dtype

Array = NDArray[Any]  # of any dtype
Floats = F64
Indices = I64
Mask = NDArray[np.bool_]
Features = NDArray[np.floating]  # float32 or float64
