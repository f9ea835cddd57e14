"""While the training goes well: readings, steps, recordings, traces, and what the UI asks for."""
