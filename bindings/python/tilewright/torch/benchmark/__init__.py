"""Speed, memory and accuracy beside whatever peers are installed: `python -m tilewright.torch.benchmark --help`."""
