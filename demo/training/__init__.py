"""The parts of demo/train.py: where it runs, what it trains, how large that is, and what goes wrong on purpose."""
