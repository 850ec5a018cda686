"""The TRL engine: the torch engine on TRL's GRPOTrainer and accelerate, on one process or many."""
