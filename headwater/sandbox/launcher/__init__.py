"""Locks itself up, then becomes the JavaScript engine: limits, Landlock, seccomp, exec.

A program of its own: it runs under `python -I -S`, needs nothing but the standard library and imports nothing of
headwater. Linux x86-64 only. The supervisor reads the tables of `seccomp` and `syscalls`, and nothing else.
"""
