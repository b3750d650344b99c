"""Memory of a solve of sums that are there, planned before it begins."""

from dataclasses import dataclass

from streamrf.display import format_bytes, resident_bytes
from streamrf.errors import MemoryBudgetError
from streamrf.training.memory import parse_bytes

# Measured, of a solve: of any width; of each output's coefficients, on the way and for each penalty
# that folds are left out with; of each entry of a full matrix, for folds
FIXED_BYTES = 16 << 20
COEF_COPIES, FOLD_COPIES = 4, 2
FOLDS_BYTES = 30


@dataclass(frozen=True, kw_only=True)
class SolvePlan:
    """Bytes that a solve takes beside its sums, by its phases.

    Parameters
    ----------
    n_components : features of the sums
    n_kept : of which are kept; None means all
    n_outputs : targets or bits
    book_bytes : of the codes
    n_folds : of the sums
    n_left_out : penalties that each fold is left out with
    is_fixed : whether there is one penalty
    traces : whether anything is asked of a full matrix: several penalties, a table, weights
    uncertainty : whether the model keeps a factor
    """

    n_components: int
    n_kept: int | None
    n_outputs: int
    book_bytes: int
    n_folds: int
    n_left_out: int
    is_fixed: bool
    traces: bool
    uncertainty: bool

    def check(self, memory_limit: int | str | None, held: int | None = None) -> None:
        """Raise MemoryBudgetError if it outgrows the memory next to what is held.

        `held` bytes of a limit that is given; None means those by now.
        """
        held = held_bytes(memory_limit) if held is None or memory_limit is None else held
        beside = f" beside {format_bytes(held)} of sums and Python" if held else ""
        outputs = f"{self.n_outputs:,} output{'s' * (self.n_outputs != 1)}"
        what = f"a solve of {self.width:,} features and {outputs}{beside}"
        check_memory(what, self.n_bytes + held, memory_limit)

    @property
    def width(self) -> int:
        """Features that are solved for."""
        return self.n_components if self.n_kept is None else min(self.n_kept, self.n_components)

    @property
    def pruned_bytes(self) -> int:
        """Of the sums of the features kept, for each fold."""
        return 4 * self.width**2 * max(1, self.n_folds) if self._prunes else 0

    @property
    def pruning_bytes(self) -> int:
        """Of factors, then of one beside the sums of the features kept and those on the way."""
        if not self._prunes:
            return 0
        factor = 4 * self.n_components**2
        n_factors = 2 + bool(self.n_folds) + (not self.is_fixed)  # folds joined, a full matrix
        joined = factor + self.pruned_bytes + 4 * self.width**2
        return max(n_factors * factor, joined) + self._outputs(self.n_components, COEF_COPIES)

    @property
    def solving_bytes(self) -> int:
        """Of factors or full matrices, and coefficients."""
        packed, copies = 4 * self.width * (self.width + 1), COEF_COPIES
        n_bytes = packed * (1 + self.uncertainty + bool(self.n_folds))  # a factor, folds joined
        if self.traces:
            n_bytes = max(n_bytes, packed * (1 + bool(self.n_folds)) + 8 * self.width**2)
        if self.n_left_out:
            n_bytes = max(n_bytes, FOLDS_BYTES * self.width**2)
            copies = 3 * COEF_COPIES + FOLD_COPIES * self.n_left_out
        return n_bytes + self._outputs(self.width, copies)

    @property
    def n_bytes(self) -> int:
        """The most at any time."""
        return max(self.pruning_bytes, self.pruned_bytes + self.solving_bytes) + FIXED_BYTES

    @property
    def _prunes(self) -> bool:
        return self.width < self.n_components

    def _outputs(self, width: int, copies: int) -> int:
        return self.book_bytes + 8 * copies * self.n_outputs * width


def held_bytes(memory_limit: int | str | None) -> int:
    """Return the bytes held by now, which a limit that is given counts, and free memory has not."""
    return 0 if memory_limit is None else resident_bytes()


def check_memory(what: str, n_bytes: int, memory_limit: int | str | None) -> None:
    """Raise MemoryBudgetError if work needs more memory than there is."""
    limit = parse_bytes(memory_limit)
    if n_bytes > limit:
        raise MemoryBudgetError(
            f"{what} takes about {format_bytes(n_bytes)}, above the memory limit of "
            f"{format_bytes(limit)}; free memory or raise memory_limit (--memory-limit)"
        )
