"""What a model says of its refinement to another loss than the squared one."""

from dataclasses import dataclass

import numpy as np

from streamrf.storage import Fields


@dataclass(frozen=True)
class Refinement:
    """How coefficients were refined to another loss than the squared one.

    Parameters
    ----------
    loss : its word
    objectives : (n_passes,) the loss of all rows and outputs with the penalty, as each pass found
        it before its step
    """

    loss: str
    objectives: tuple[float, ...]

    def to_tree(self) -> dict:
        """Return the word and the numbers as a tree."""
        return {"loss": self.loss, "objectives": np.array(self.objectives)}

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Refinement":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        loss = fields.text("loss")
        objectives = fields.array("objectives", np.float64, (None,))
        fields.end()
        return cls(loss, tuple(objectives.tolist()))
