"""The simulated GPU and the caching allocator that runs on it.

Everything above it (tensors, autograd, layers) only decides which sizes are requested and when they are freed; whether
they fit is decided here, by the rules of PyTorch's own CUDACachingAllocator. It knows nothing of tensors, layers and
trainings.
"""
