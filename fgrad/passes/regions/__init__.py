"""Derivatives of regions, made from the derivatives of their bodies: one file per kind of region."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
