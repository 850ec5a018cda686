"""Many runs on the same problems, seeds and budget, and what they show side by side."""
