"""Tests that start this version of Headwater on the data directory of an older one."""
