"""One optimizer with state, and the global hooks."""
from .optimizer import Adam, Optimizer

# torch takes the name away as well, up to 2.4.
del optimizer
