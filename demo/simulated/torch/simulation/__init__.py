"""The simulated card and the caching allocator that runs on it.

This package is what makes the stand-in worth having: everything above it (tensors, autograd, layers) only
decides which sizes are asked for and when they are let go; whether they fit is decided here, by the rules of
PyTorch's own CUDACachingAllocator. It knows no tensor, no layer and no training.
"""
