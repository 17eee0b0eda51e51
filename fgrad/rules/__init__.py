"""The derivative rules: one file per family of primitives, the only place where a derivative is written."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
