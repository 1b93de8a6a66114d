"""Static analysis of users' scripts: what their text says, without running them."""
