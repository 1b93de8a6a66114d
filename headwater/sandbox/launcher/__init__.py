"""Restricts its own process (rlimits, Landlock, seccomp), and executes Deno.

The launcher is a separate program. It runs under `python -I -S` on Linux x86-64, and imports only the standard library.
The parent imports only the tables in `seccomp` and `syscalls`, and the checks in `landlock`.
"""
