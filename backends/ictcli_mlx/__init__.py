"""The MLX engine: Apple silicon, and the CPU of any machine."""
