"""After an OOM in the first steps: what another batch or a remedy would need."""
