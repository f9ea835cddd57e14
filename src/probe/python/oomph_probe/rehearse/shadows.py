"""Parameters that an optimizer was given and that no step trains: those of a model's copy of itself inside of it (an
average of its weights, a target network). They have no gradient, and optimizers keep no state for what has none.

Other parameters that a step does not reach may be reached by a later one: a layer that was left out by chance, a
discriminator whose turn it was not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..common.protocols import Module


def with_gradients(module: Module) -> set[int]:
    """The addresses of its parameters that have a gradient now."""
    return {id(each) for each in module.parameters() if each.grad is not None}


def never_trained(module: Module, reached: set[int]) -> set[int]:
    """The addresses of the parameters of those modules that no gradient reached and beside which lies one that is the
    same, and that was reached. `reached`: the addresses of the parameters that have had a gradient."""
    found: set[int] = set()
    for parent in module.modules():
        # The layers of a list are alike, and any may be left out in a step.
        parts = [child for name, child in parent.named_children() if not name.isdigit()]
        of_parts = [[each for each in part.parameters() if each.requires_grad] for part in parts]
        trained = [shapes_of(each) for each in of_parts if any(id(one) in reached for one in each)]
        for parameters in of_parts:
            if parameters and not any(id(each) in reached for each in parameters) and shapes_of(parameters) in trained:
                found.update(map(id, parameters))
    return found


def shapes_of(parameters: list[object]) -> list[tuple[int, ...]]:
    return [tuple(getattr(each, "shape")) for each in parameters]
