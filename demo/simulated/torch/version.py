"""What `torch.version` says. No CUDA stands behind it, so none is named as if it did."""
__version__ = "2.11.0+simulated"
cuda = "simulated"
hip = None
git_version = "simulated"
debug = False
