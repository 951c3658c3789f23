"""Out-of-tree Inductor backend of the simulated device. Importing it loads nothing of torch._inductor."""
