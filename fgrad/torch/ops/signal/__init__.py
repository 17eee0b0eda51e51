"""Fourier transforms and finite differences."""
