"""``torch.compiler``: programs on mutable tensors captured as graphs, and PyTorch's functions of that name."""

from fgrad.torch.compiler.backends import (
    get_default_backend as get_default_backend,
    list_backends as list_backends,
    load_cache_artifacts as load_cache_artifacts,
    save_cache_artifacts as save_cache_artifacts,
    set_default_backend as set_default_backend,
    wrap_numpy as wrap_numpy,
)
from fgrad.torch.compiler.compilation import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    compile as compile,
    config as config,
    disable as disable,
    is_compiling as is_compiling,
    is_dynamo_compiling as is_dynamo_compiling,
    is_exporting as is_exporting,
    reset as reset,
)
from fgrad.torch.compiler.explanation import explain as explain
from fgrad.torch.compiler.graphs import capture as capture
from fgrad.torch.compiler.pure import pure as pure
from fgrad.torch.compiler.stance import (
    cudagraph_mark_step_begin as cudagraph_mark_step_begin,
    nested_compile_region as nested_compile_region,
    set_stance as set_stance,
    substitute_in_graph as substitute_in_graph,
)
