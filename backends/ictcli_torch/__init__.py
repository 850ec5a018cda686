"""The PyTorch engine, for CUDA, MPS and CPUs."""
