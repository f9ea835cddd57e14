"""Nothing but the name."""
