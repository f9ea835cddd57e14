"""torch.utils, as far as tools reach for it."""
from . import checkpoint, hooks
