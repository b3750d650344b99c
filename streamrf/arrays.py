"""Names of the types of arrays, for signatures."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray  # of any dtype
Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Features: TypeAlias = NDArray[np.floating]  # float32 or float64
