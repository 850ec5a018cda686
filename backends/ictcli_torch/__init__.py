"""The PyTorch engine: CUDA, MPS and CPU."""
