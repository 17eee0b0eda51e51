"""Walking the tree of modules: children, descendants, their parameters and buffers, by name or in order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from fgrad.torch.nn.modules.registration import Registry, buffers_of, parameters_of
from fgrad.torch.nn.parameter import Parameter


class Traversal(Registry):
    """The module as a tree."""

    # ----------------------------------------------------------------------------------------------------------------
    # by name

    def get_submodule(self, target: str) -> Any:
        """The descendant with the dotted name ``target``; the module itself for an empty one.

        Raises:
          AttributeError: there is none, or it is not a module.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            module = _attribute(module, name)
            if not isinstance(module, Registry):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Set the submodule with the dotted name ``target``, which must already exist if ``strict``.

        Raises:
          ValueError: ``target`` is empty, or ``module`` not a module.
          AttributeError: the path to it, or with ``strict`` the target itself, does not exist or is not a module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Registry):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if (strict or hasattr(parent, name)) and not isinstance(_attribute(parent, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Any:
        """The parameter with the dotted name ``target``.

        Raises:
          AttributeError: there is none, or it is not a parameter.
        """
        path, _, name = target.rpartition(".")
        parameter = _attribute(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Any:
        """The buffer with the dotted name ``target``.

        Raises:
          AttributeError: there is none, or it is not a buffer.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = _attribute(module, name)
        if name not in buffers_of(module):
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # ----------------------------------------------------------------------------------------------------------------
    # in order

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The module itself and all its descendants with their names; each once unless ``remove_duplicate`` is False.

        >>> import fgrad.torch as torch
        >>> module = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Tanh()))
        >>> [name for name, _ in module.named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, _join(prefix, name), remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """The module itself and all its descendants."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules one level down with their names, each once."""
        visited = set()
        for name, module in self._modules.items():
            if module is not None and module not in visited:
                visited.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules one level down, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The parameters with their names, those of the descendants included if ``recurse``.

        >>> import fgrad.torch as torch
        >>> [name for name, _ in torch.nn.Sequential(torch.nn.Linear(2, 1)).named_parameters()]
        ['0.weight', '0.bias']
        """
        yield from self._named_members(
            lambda module: parameters_of(module).items(),
            prefix=prefix,
            recurse=recurse,
            remove_duplicate=remove_duplicate,
        )

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """The parameters, those of the descendants included if ``recurse``; what an optimiser takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The buffers with their names, those of the descendants included if ``recurse``."""
        yield from self._named_members(
            lambda module: buffers_of(module).items(), prefix=prefix, recurse=recurse, remove_duplicate=remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The buffers, those of the descendants included if ``recurse``."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        visited = set()
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in visited:
                    continue
                if remove_duplicate:
                    visited.add(member)
                yield _join(path, name), member

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call ``fn`` on every descendant, then on the module itself; returns the module.

        >>> import fgrad.torch as torch
        >>> _ = torch.nn.Sequential(torch.nn.ReLU()).apply(print)
        ReLU()
        Sequential(
          (0): ReLU()
        )
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self


def _attribute(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
