"""torch.utils, as far as tools use it."""
from . import checkpoint, hooks
