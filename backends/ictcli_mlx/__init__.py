"""The MLX engine, for Apple silicon and for the CPU of any machine."""
