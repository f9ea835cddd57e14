"""What `torch.version` says. There is no CUDA here, so no version of it is named."""
__version__ = "2.11.0+simulated"
cuda = "simulated"
hip = None
git_version = "simulated"
debug = False
