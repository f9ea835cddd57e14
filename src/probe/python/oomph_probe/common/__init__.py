"""What all the others stand on: the ways to the UI, Python stacks, the calls and the repeated blocks of models."""
