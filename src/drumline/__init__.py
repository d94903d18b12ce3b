"""Parallel policy search with the same bits for any number of workers."""
