"""``torch.compiler``: programs on mutable tensors captured as graphs, and PyTorch's functions of that name."""

from fgrad.torch.compiler.backends import (
    get_default_backend as get_default_backend,
    keep_portable_guards_unsafe as keep_portable_guards_unsafe,
    keep_tensor_guards_unsafe as keep_tensor_guards_unsafe,
    list_backends as list_backends,
    load_cache_artifacts as load_cache_artifacts,
    load_compiled_function as load_compiled_function,
    save_cache_artifacts as save_cache_artifacts,
    set_default_backend as set_default_backend,
    set_enable_guard_collectives as set_enable_guard_collectives,
    skip_all_guards_unsafe as skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe as skip_guard_on_all_nn_modules_unsafe,
    skip_guard_on_globals_unsafe as skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe as skip_guard_on_inbuilt_nn_modules_unsafe,
    wrap_numpy as wrap_numpy,
)
from fgrad.torch.compiler.compilation import (
    compile as compile,
    config as config,
    reset as reset,
)
from fgrad.torch.compiler.disabling import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    nested_compile_region as nested_compile_region,
    substitute_in_graph as substitute_in_graph,
)
from fgrad.torch.compiler.explanation import explain as explain
from fgrad.torch.compiler.graphs import capture as capture
from fgrad.torch.compiler.pure import pure as pure
from fgrad.torch.compiler.running import (
    is_compiling as is_compiling,
    is_dynamo_compiling as is_dynamo_compiling,
    is_exporting as is_exporting,
)
from fgrad.torch.compiler.stance import (
    cudagraph_mark_step_begin as cudagraph_mark_step_begin,
    set_stance as set_stance,
)
