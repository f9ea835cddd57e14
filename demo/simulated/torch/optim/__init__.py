"""torch.optim."""
from . import optimizer
from .adamw import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD
