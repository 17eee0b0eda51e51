"""``gradcheck`` and ``gradgradcheck``: derivatives compared with finite differences."""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_edge
from fgrad.mutable.transforms.levels import cross_in, cross_out, mapping_gradients
from fgrad.mutable.types.dtypes import complex128, float64
from fgrad.torch import ops
from fgrad.torch.autograd.backward import grad
from fgrad.torch.autograd.comparison import Comparison, random_vectors
from fgrad.torch.autograd.finite_differences import GradcheckError, is_inexact, tracked_positions, tupled
from fgrad.torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from fgrad.torch.autograd.gradcheck_advice import BATCHED_FORWARD_HINT, BATCHED_HINT


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of a function agree with finite differences.

    Arguments:
      func: takes tensors and returns a tensor or a tuple of them.
      inputs: a tensor or a tuple; those that require grad, of double precision, are differentiated.
      eps: the step of the differences.
      atol, rtol: how far derivatives may differ.
      raise_exception: raise if they differ; else return False.
      nondet_tol: how far two backwards may differ.
      check_undefined_grad: whether backward has to accept missing gradients as zeros.
      check_grad_dtypes: whether gradients have to have the dtype of their inputs.
      check_batched_grad, check_batched_forward_grad: compare with derivatives computed for a batch at once.
      check_forward_ad, check_backward_ad: which modes are checked.
      fast_mode: see NOTE [Fast mode].
      masked: for sparse tensors, which are not supported.

    Raises:
      GradcheckError: a derivative is wrong.
      ValueError: no input requires grad.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, x)
    True

    Source: `torch.autograd.gradcheck.gradcheck
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html>`_.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    args = tupled(inputs)
    try:
        _check_inputs(args)
        results = tupled(func(*args))
        reverse = Comparison(eps, rtol, atol, check_grad_dtypes, nondet_tol, fast_mode)
        if check_backward_ad:
            _reverse(reverse, func, args, results)
        if check_forward_ad:
            forward = Comparison(eps, rtol, atol, check_grad_dtypes, nondet_tol, fast_mode, True)
            _forward(forward, func, args, results, check_undefined_grad)
        if check_batched_forward_grad:
            _batched_forward(func, args)
        if not check_backward_ad:
            return True
        outputs = _differentiable(results)
        for i, x in enumerate(outputs):
            if check_batched_grad:
                _batched_reverse(args, x, i)
        _check_multiplied(outputs, args, bool(masked))
        if check_undefined_grad:
            _check_undefined(func, outputs, args)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_inputs(inputs: Sequence[Any]) -> None:
    checked = tracked_positions(inputs)
    for i in checked:
        x = inputs[i]
        if x.dtype not in (float64, complex128):
            warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if not all(stride > 0 or size <= 1 for stride, size in zip(x.stride(), x.size(), strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def _differentiable(results: Sequence[Any]) -> list[Tensor]:
    return [x for x in results if x.requires_grad]


def _reverse(check: Comparison, func: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any]) -> None:
    if not any(x.is_complex() for x in results):
        return check.run(func, inputs, results)
    complex_outputs = [i for i, x in enumerate(_differentiable(results)) if x.is_complex()]

    def part(take: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
        return lambda *args: tuple([take(x) if x.is_complex() else x for x in tupled(func(*args))])

    for take, imaginary in ((lambda x: x.imag, True), (lambda x: x.real, False)):
        check.as_part(complex_outputs, imaginary).run(part(take), inputs, part(take)(*inputs))
    return None


def _forward(
    check: Comparison, func: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any], undefined: bool
) -> None:
    complex_inputs = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.is_complex()]
    if not complex_inputs:
        check.run(func, inputs, results)
        if undefined:
            _check_undefined_tangents(func, inputs)
        return

    def of_parts(join: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
        """The function of one real part of the complex inputs."""

        def wrapped(*args: Any) -> Any:
            return tupled(func(*[join(x, inputs[i]) if i in complex_inputs else x for i, x in enumerate(args)]))

        return wrapped

    of_imaginary = of_parts(lambda x, z: z.real + x * 1j)
    of_real = of_parts(lambda x, z: x + z.imag * 1j)
    imaginary = [x.imag if i in complex_inputs else x for i, x in enumerate(inputs)]
    real = [x.real if i in complex_inputs else x for i, x in enumerate(inputs)]
    check.as_part(complex_inputs, True).run(of_imaginary, imaginary, of_imaginary(*imaginary))
    check.as_part(complex_inputs, False).run(of_real, real, of_real(*real))
    if undefined:
        _check_undefined_tangents(of_imaginary, imaginary)
        _check_undefined_tangents(of_real, real)


def _check_undefined_tangents(func: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """A missing tangent has to act as zero."""
    checked = tracked_positions(inputs)
    directions, _ = random_vectors([inputs[i] for i in checked], ())
    for position in checked:
        with dual_level():
            duals = list(inputs)
            for i, u in zip(checked, directions, strict=True):
                duals[i] = make_dual(inputs[i].detach(), u.reshape(inputs[i].shape))
            plain = inputs[position].detach()
            duals[position] = make_dual(plain, ops.zeros_like(plain))
            with_zeros = [unpack_dual(x).tangent for x in tupled(func(*duals)) if is_inexact(x)]
            duals[position] = inputs[position].detach()
            without = [unpack_dual(x).tangent for x in tupled(func(*duals)) if is_inexact(x)]
        for k, (a, b) in enumerate(zip(with_zeros, without, strict=True)):
            if a is not None and b is not None and not ops.allclose(a, b):
                raise GradcheckError(
                    "Mismatch in tangent values for output with index: ",
                    k,
                    " when input: ",
                    inputs[position],
                    " has an undefined tangent value. ",
                    " Got: ",
                    a,
                    " but expected: ",
                    b,
                )


def _check_multiplied(outputs: Sequence[Tensor], inputs: Sequence[Any], masked: bool) -> None:
    """Zero gradients of the outputs have to give zero gradients."""
    sources = [inputs[i] for i in tracked_positions(inputs)]
    if not outputs:
        return
    gradients = grad(outputs, sources, [ops.zeros_like(x) for x in outputs], allow_unused=True, retain_graph=True)
    for g, x in zip(gradients, sources, strict=True):
        if g is None:
            continue
        zero = ops.allclose(g, ops.zeros_like(g)) if masked else bool((g == 0).all())
        if not zero:
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != x.dtype:
            raise GradcheckError("grad is incorrect type")
        if g.size() != x.size():
            raise GradcheckError("grad is incorrect size")


class UndefinedGrad(Node):
    """Passes on no gradient."""

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return [None]


def _without_gradient(x: Tensor) -> Tensor:
    output = alias(x)
    output._node = UndefinedGrad((gradient_edge(x),), (x._type,), None)
    return output


def _check_undefined(func: Callable[..., Any], outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
    """Backward has to take missing gradients, of all outputs and of each one, as zeros."""
    sources = [inputs[i] for i in tracked_positions(inputs)]
    cases = [range(len(outputs)), *([k] for k in range(len(outputs)) if len(outputs) > 1)]
    for missing in cases:
        fresh = _differentiable(tupled(func(*inputs)))
        pruned = [_without_gradient(x) if k in missing else x for k, x in enumerate(fresh)]
        if not pruned:
            continue
        try:
            gradients = grad(pruned, sources, [ops.zeros_like(x) for x in pruned], allow_unused=True)
        except RuntimeError as error:
            _warn_undefined()
            raise GradcheckError(
                'Expected backward function to handle undefined output grads. Please look at "Notes about undefined '
                'output gradients" in "tools/autograd/derivatives.yaml"'
            ) from error
        if any(g is not None and not bool((g == 0).all()) for g in gradients):
            _warn_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please "
                'look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            )


def _warn_undefined() -> None:
    warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
    )


def _batched_reverse(inputs: Sequence[Any], output: Tensor, position: int) -> None:
    """A batched backward of two gradients has to agree with two backwards."""
    sources = [inputs[i] for i in tracked_positions(inputs)]
    cotangents = [ops.randn_like(output) for _ in range(2)]

    def pulled(ct: Tensor) -> list[Tensor]:
        gradients = grad(output, sources, ct, retain_graph=True, allow_unused=True)
        return [ops.zeros_like(x) if g is None else g for g, x in zip(gradients, sources, strict=True)]

    _compare_batched([pulled(ct) for ct in cotangents], cotangents, pulled, BATCHED_HINT, position)


def _batched_forward(func: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """A batched forward pass of two tangents has to agree with two passes."""
    for position in tracked_positions(inputs):
        x = inputs[position]
        tangents = [ops.randn_like(x) for _ in range(2)]

        def pushed(tangent: Tensor, position: int = position, x: Tensor = x) -> list[Tensor]:
            with dual_level():
                args = [y.detach() if isinstance(y, Tensor) else y for y in inputs]
                args[position] = make_dual(x.detach(), tangent)
                pairs = [unpack_dual(y) for y in tupled(func(*args)) if y is not None]
                return [ops.zeros_like(primal) if t is None else t for primal, t in pairs]

        _compare_batched([pushed(t) for t in tangents], tangents, pushed, BATCHED_FORWARD_HINT, None)


def _compare_batched(
    expected: Sequence[Sequence[Tensor]],
    vectors: Sequence[Tensor],
    function: Callable[[Tensor], Sequence[Tensor]],
    advice: str,
    output: int | None,
) -> None:
    try:
        with mapping_gradients(2) as level:
            results = [cross_out(x, level) for x in function(cross_in(ops.stack(vectors).detach(), level))]
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}\n\n{advice}") from error
    for i, (result, *parts) in enumerate(zip(results, *expected, strict=True)):
        stacked = ops.stack(parts)
        if not ops.allclose(result, stacked):
            position = i if output is None else output
            raise GradcheckError(
                f"For output {position} and input {i}:\n\n{advice}\n\nGot:\n{result}\n\nExpected:\n{stacked}"
            )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of a function agree with finite differences of its gradients.

    Arguments:
      grad_outputs: the gradients of the outputs; random ones if None.
      gen_non_contig_grad_outputs: whether these are not contiguous.
      check_fwd_over_rev, check_rev_over_rev: by which mode the gradients are differentiated.

    The others, and the errors, are those of ``gradcheck``.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, x)
    True

    Source: `torch.autograd.gradcheck.gradgradcheck
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradgradcheck.html>`_.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    for name, value in (("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad)):
        if value and not check_rev_over_rev:
            raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")
    primals = tupled(inputs)
    if grad_outputs is None:
        outputs = _differentiable(tupled(func(*primals)))
        cotangents = tuple([_random_like(x, gen_non_contig_grad_outputs) for x in outputs])
    else:
        cotangents = tupled(grad_outputs)
    count = len(cotangents)
    checked, seeds = tracked_positions(primals), tracked_positions(cotangents)

    def gradient(*args: Any) -> tuple[Tensor, ...]:
        sources, cts = args[:-count], args[-count:]
        for i in checked:
            sources[i].requires_grad_()
        for i in seeds:
            cts[i].requires_grad_()
        outputs = _differentiable(tupled(func(*sources)))
        gradients = grad(outputs, [sources[i] for i in checked], cts, create_graph=True, allow_unused=True)
        return tuple([g for g in gradients if g is not None])

    return gradcheck(
        gradient,
        primals + cotangents,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _random_like(x: Tensor, gaps: bool) -> Tensor:
    """Uniform numbers in [-1, 1) that require grad; with ``gaps``, not contiguous."""
    vector = x.detach().new_empty(x.shape)
    (ops.view_as_real(vector) if vector.is_complex() else vector).uniform_(-1, 1)
    if gaps and x.dim():
        vector = vector.repeat_interleave(2, dim=-1)[..., ::2]
    return vector.requires_grad_()


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
