"""Static analysis, which finds out from a script's text whether it keeps state."""
