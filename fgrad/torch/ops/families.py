"""The families of operations that are imported when one of their names is first used, and these names.

A program that adds and multiplies needs no spectrograms.  Each family's file enters its rows in the table when it is
imported.  Until then this file lists its functions, and a descriptor stands for each of its methods.
``tests/test_deferred.py`` keeps the list and the files in step.
"""

from collections.abc import Callable, Iterator
from typing import Any

from fgrad.deferred import import_at_first_use, is_imported
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.methods.overridable import entered_method

#: the names in each file: "exp" is a function of ``torch`` and a method of tensors, "where()" only a function, ".where"
#: only a method, "linalg.qr" a function of another namespace; F is ``nn.functional``
FAMILIES = {
    "nn.functional.activation": "F.relu F.relu_ F.sigmoid F.tanh F.threshold F.threshold_ F.hardtanh F.hardtanh_ "
    "F.relu6 F.hardsigmoid F.hardswish F.softshrink F.tanhshrink F.softsign",
    "nn.functional.adaptive": "F.adaptive_avg_pool1d adaptive_avg_pool1d() F.adaptive_avg_pool2d "
    "F.adaptive_avg_pool3d F.adaptive_max_pool1d_with_indices adaptive_max_pool1d() "
    "F.adaptive_max_pool2d_with_indices F.adaptive_max_pool3d_with_indices F.adaptive_max_pool1d "
    "F.adaptive_max_pool2d F.adaptive_max_pool3d",
    "nn.functional.attention": "F.scaled_dot_product_attention",
    "nn.functional.blocks": "F.unfold F.fold F.max_unpool1d F.max_unpool2d F.max_unpool3d",
    "nn.functional.classification": "F.nll_loss F.cross_entropy F.linear_cross_entropy F.binary_cross_entropy "
    "binary_cross_entropy_with_logits() F.binary_cross_entropy_with_logits kl_div() F.kl_div",
    "nn.functional.convolution": "F.conv1d conv1d() F.conv2d conv2d() F.conv3d conv3d() F.conv_transpose1d "
    "conv_transpose1d() F.conv_transpose2d conv_transpose2d() F.conv_transpose3d conv_transpose3d() F.conv_tbc "
    "conv_tbc()",
    "nn.functional.ctc": "ctc_loss() F.ctc_loss",
    "nn.functional.distance": "F.pairwise_distance pairwise_distance() F.cosine_similarity cosine_similarity() "
    "F.pdist pdist()",
    "nn.functional.dropout": "F.dropout F.alpha_dropout F.feature_alpha_dropout F.dropout1d F.dropout2d F.dropout3d "
    "dropout() dropout_() alpha_dropout() alpha_dropout_() feature_dropout() feature_dropout_() "
    "feature_alpha_dropout() feature_alpha_dropout_()",
    "nn.functional.embedding": "embedding() embedding_renorm_() F.embedding F.embedding_bag F.one_hot",
    "nn.functional.fractional": "F.fractional_max_pool2d_with_indices F.fractional_max_pool3d_with_indices "
    "F.fractional_max_pool2d F.fractional_max_pool3d",
    "nn.functional.leaky": "F.leaky_relu F.leaky_relu_ rrelu() F.rrelu F.rrelu_ rrelu_()",
    "nn.functional.linear": "F.linear F.bilinear bilinear()",
    "nn.functional.margins": "margin_ranking_loss() F.margin_ranking_loss hinge_embedding_loss() "
    "F.hinge_embedding_loss cosine_embedding_loss() F.cosine_embedding_loss F.soft_margin_loss F.multi_margin_loss "
    "F.multilabel_margin_loss F.multilabel_soft_margin_loss triplet_margin_loss() F.triplet_margin_loss "
    "F.triplet_margin_with_distance_loss",
    "nn.functional.multihead": "F.multi_head_attention_forward",
    "nn.functional.native": "convolution() native_dropout()",
    "nn.functional.native_bags": "embedding_bag()",
    "nn.functional.native_normalisation": "native_layer_norm() native_group_norm() native_batch_norm()",
    "nn.functional.normalisation": "F.batch_norm batch_norm() F.instance_norm instance_norm() F.layer_norm "
    "layer_norm() group_norm() F.group_norm rms_norm() F.rms_norm F.local_response_norm F.normalize",
    "nn.functional.pooling": "F.max_pool1d_with_indices F.max_pool2d_with_indices F.max_pool3d_with_indices "
    "F.max_pool1d F.max_pool2d F.max_pool3d max_pool1d() max_pool2d() max_pool3d() max_pool1d_with_indices() "
    "F.avg_pool1d avg_pool1d() F.avg_pool2d F.avg_pool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d",
    "nn.functional.regression": "F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss poisson_nll_loss() "
    "F.poisson_nll_loss F.gaussian_nll_loss",
    "nn.functional.resampling": "F.interpolate F.upsample F.upsample_nearest F.upsample_bilinear",
    "nn.functional.sampling": "grid_sampler() grid_sampler_2d() grid_sampler_3d() F.grid_sample "
    "affine_grid_generator() F.affine_grid",
    "nn.functional.shuffling": "pixel_shuffle() F.pixel_shuffle pixel_unshuffle() F.pixel_unshuffle channel_shuffle() "
    "F.channel_shuffle native_channel_shuffle() F.native_channel_shuffle",
    "nn.functional.smooth": "F.elu F.elu_ selu() F.selu F.selu_ selu_() celu() F.celu F.celu_ celu_() F.gelu F.silu "
    "F.mish F.softplus F.logsigmoid F.glu",
    "nn.functional.softmax": "F.softmax F.log_softmax F.softmin F.gumbel_softmax",
    "nn.recurrent_functions": "lstm() gru() rnn_tanh() rnn_relu() lstm_cell() gru_cell() rnn_tanh_cell() "
    "rnn_relu_cell()",
    "ops.creation.combinations": "addcmul addcmul_ addcdiv addcdiv_ lerp lerp_",
    "ops.creation.interchange": "asarray() frombuffer() from_dlpack() to_dlpack() .__dlpack__ .__dlpack_device__",
    "ops.creation.ranges": "arange() range() linspace() logspace()",
    "ops.creation.signal_windows": "hann_window() hamming_window() bartlett_window() blackman_window() kaiser_window()",
    "ops.elementwise.activations": "F.hardshrink hardshrink F.prelu prelu",
    "ops.elementwise.bessel": "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 "
    "special.spherical_bessel_j0 special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 "
    "special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.airy_ai",
    "ops.elementwise.complex_numbers": "complex() polar() angle conj_physical conj_physical_ resolve_conj resolve_neg",
    "ops.elementwise.elementary": "exp exp_ exp2 exp2_ expm1 expm1_ log log_ log2 log2_ log10 log10_ log1p log1p_ "
    "logaddexp logaddexp2 xlogy xlogy_ sigmoid sigmoid_ logit logit_",
    "ops.elementwise.modified_bessel": "i0 i0_ special.i0e special.i1 special.i1e",
    "ops.elementwise.polynomials": "special.chebyshev_polynomial_t special.shifted_chebyshev_polynomial_t "
    "special.chebyshev_polynomial_u special.shifted_chebyshev_polynomial_u special.chebyshev_polynomial_v "
    "special.shifted_chebyshev_polynomial_v special.chebyshev_polynomial_w special.shifted_chebyshev_polynomial_w "
    "special.hermite_polynomial_h special.hermite_polynomial_he special.laguerre_polynomial_l "
    "special.legendre_polynomial_p",
    "ops.elementwise.rounding": "floor floor_ ceil ceil_ trunc trunc_ fix fix_ round round_ frac frac_",
    "ops.elementwise.special": "erf erf_ erfc erfc_ erfinv erfinv_ special.erfcx special.ndtr special.ndtri "
    "special.log_ndtr special.entr lgamma lgamma_ digamma digamma_ polygamma() mvlgamma mvlgamma_ igamma igamma_ "
    "igammac igammac_ special.zeta special.xlog1py .polygamma .polygamma_",
    "ops.elementwise.trigonometric": "sin sin_ cos cos_ tan tan_ asin asin_ acos acos_ atan atan_ sinh sinh_ cosh "
    "cosh_ tanh tanh_ asinh acosh atanh asinh_ acosh_ atanh_ arcsin arcsin_ arcsinh arcsinh_ arccos arccos_ arccosh "
    "arccosh_ arctan arctan_ arctanh arctanh_ atan2 atan2_ arctan2 arctan2_ sinc sinc_ deg2rad deg2rad_ rad2deg "
    "rad2deg_",
    "ops.indexing.gathering": "gather index_select take take_along_dim masked_select nonzero argwhere nonzero_static",
    "ops.indexing.masked_scatter": "masked_scatter masked_scatter_",
    "ops.indexing.scatter_reductions": "scatter_reduce scatter_reduce_ index_reduce index_reduce_",
    "ops.indexing.scattering": "scatter scatter_ scatter_add scatter_add_ index_add index_add_ index_copy index_copy_ "
    "index_fill index_fill_ put put_ masked_fill masked_fill_",
    "ops.indexing.searching": "searchsorted() bucketize() isin() _convert_indices_from_coo_to_csr() "
    "_convert_indices_from_csr_to_coo()",
    "ops.indexing.segments": "segment_reduce() _segment_reduce()",
    "ops.indexing.selection": "where() clamp clamp_ clip clip_ clamp_min clamp_min_ clamp_max clamp_max_ relu relu_ "
    "threshold() threshold_() maximum minimum fmax fmin nan_to_num nan_to_num_ .where",
    "ops.indexing.triangles": "tril tril_ triu triu_ tril_indices() triu_indices() trace diag_embed diag diagflat "
    "block_diag() vander()",
    "ops.indexing.unraveling": "unravel_index()",
    "ops.linalg.cholesky": "linalg.cholesky_ex linalg.cholesky cholesky",
    "ops.linalg.contractions": "tensordot() inner kron chain_matmul() cross",
    "ops.linalg.decompositions": "linalg.qr qr linalg.svd linalg.svdvals svd linalg.eig linalg.eigvals linalg.eigh "
    "linalg.eigvalsh linalg.householder_product orgqr geqrf ormqr",
    "ops.linalg.determinants": "linalg.det det linalg.slogdet slogdet logdet",
    "ops.linalg.einsum": "einsum()",
    "ops.linalg.inverses": "linalg.inv_ex linalg.inv inverse linalg.pinv pinverse",
    "ops.linalg.least_squares": "linalg.lstsq",
    "ops.linalg.low_rank": "svd_lowrank() pca_lowrank()",
    "ops.linalg.lu_factors": "linalg.lu_factor_ex linalg.lu_factor linalg.lu lu lu_unpack() linalg.lu_solve lu_solve",
    "ops.linalg.matrix_functions": "linalg.vector_norm linalg.matrix_norm linalg.norm norm linalg.cond "
    "linalg.matrix_rank matrix_power linalg.matrix_power linalg.matrix_exp matrix_exp linalg.multi_dot linalg.matmul "
    "linalg.vecdot linalg.cross linalg.diagonal linalg.vander",
    "ops.linalg.product_sums": "addmm addmm_ addmv addmv_ addbmm addbmm_ baddbmm baddbmm_ addr addr_",
    "ops.linalg.solving": "linalg.solve_ex linalg.solve linalg.solve_triangular triangular_solve cholesky_solve "
    "cholesky_inverse linalg.tensorinv linalg.tensorsolve",
    "ops.linalg.symmetric_factors": "linalg.ldl_factor_ex linalg.ldl_factor linalg.ldl_solve",
    "ops.random.random": "rand() randn() randint() randperm() rand_like() randn_like() randint_like() .uniform_ "
    ".normal_ .log_normal_ .exponential_ .cauchy_ .geometric_ .random_ .bernoulli_",
    "ops.random.sampling": "normal() bernoulli poisson() binomial() multinomial _standard_gamma() _sample_dirichlet()",
    "ops.reductions.cumulative": "cumsum .cumsum_ cumprod .cumprod_ logcumsumexp cummax cummin diff trapezoid() "
    "trapz() cumulative_trapezoid()",
    "ops.reductions.extrema": "max min amax amin aminmax argmax argmin",
    "ops.reductions.former_norms": "frobenius_norm() nuclear_norm()",
    "ops.reductions.histograms": "histc histogram histogramdd()",
    "ops.reductions.norms": "dist _euclidean_dist() cdist() renorm renorm_",
    "ops.reductions.ordering": "sort argsort msort topk median nanmedian kthvalue mode quantile nanquantile unique "
    "unique_consecutive",
    "ops.reductions.softmax": "softmax log_softmax _safe_softmax() _softmax_backward_data() "
    "_log_softmax_backward_data()",
    "ops.reductions.statistics": "var std var_mean() std_mean() cov corrcoef bincount",
    "ops.reductions.weight_norms": "norm_except_dim() _weight_norm_interface() _weight_norm()",
    "ops.signal.central_differences": "gradient()",
    "ops.signal.fourier": "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fftn fft.ifftn fft.rfftn "
    "fft.irfftn fft.hfftn fft.ihfftn fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.hfft2 fft.ihfft2 fft.fftfreq "
    "fft.rfftfreq fft.fftshift fft.ifftshift",
    "ops.signal.spectrograms": "stft istft",
    "ops.table.inspection": "result_type() is_inference is_same_size numel() is_floating_point() is_complex() "
    "is_signed() is_conj() is_neg() typename()",
    "ops.table.removed": "matrix_rank solve lstsq symeig eig",
    "ops.table.symbolic_numbers": "sym_float() sym_int() sym_max() sym_min() sym_not() sym_ite() sym_sum() sym_sqrt()",
    "ops.views.inplace_views": ".t_ .transpose_ .swapaxes_ .swapdims_ .unsqueeze_ .squeeze_ as_strided_ .apply_ .map_ "
    ".map2_ resize_as_",
    "ops.views.joining": "cat() concat() concatenate() stack() hstack() vstack() row_stack() dstack() column_stack() "
    "_chunk_cat()",
    "ops.views.padding": "constant_pad_nd() F.pad",
    "ops.views.rearranging": ".repeat tile repeat_interleave roll flip fliplr flipud rot90 cartesian_prod() "
    "combinations()",
    "ops.views.reshaping": "atleast_1d() atleast_2d() atleast_3d() broadcast_tensors() broadcast_shapes() meshgrid()",
    "ops.views.splitting": "diagonal .unfold as_strided unbind split_with_sizes split chunk tensor_split hsplit "
    "vsplit dsplit",
    "ops.views.unsafe": "unsafe_split unsafe_split_with_sizes unsafe_chunk",
    "ops.views.view_copies": "alias_copy() detach_copy() expand_copy() view_copy() permute_copy() transpose_copy() "
    "t_copy() unsqueeze_copy() squeeze_copy() diagonal_copy() unfold_copy() view_as_real_copy() select_copy() "
    "narrow_copy slice_copy() as_strided_copy() unbind_copy() split_copy() split_with_sizes_copy()",
    "ops.views.view_scatters": "select_scatter slice_scatter diagonal_scatter as_strided_scatter .fill_diagonal_",
}

#: the methods of the families that have been imported
_methods: dict[str, Any] = {}


#: by file, its names in ``nn.functional``
FUNCTIONAL: dict[str, str] = {
    f"fgrad.torch.{module}": " ".join(name.removeprefix("F.") for name in names.split() if name.startswith("F."))
    for module, names in FAMILIES.items()
}


def rows() -> dict[str, list[str]]:
    """By file, the names of the functions that it enters in the table."""
    return {
        module: [
            name.removesuffix("()") if name[:2] != "F." else f"nn.functional.{name[2:]}"
            for name in names.split()
            if name[0] != "."
        ]
        for module, names in FAMILIES.items()
    }


def functions() -> Iterator[str]:
    """The names of those in ``torch`` itself."""
    return (name for names in rows().values() for name in names if "." not in name)


class Method:
    """A descriptor that imports a method of tensors when it is first used, and has its name and docstring."""

    def __init__(self, name: str, module: str):
        self.name: str = name
        self.module: str = module

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.__wrapped__.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __wrapped__(self) -> Any:
        """The method."""
        if is_imported(import_at_first_use(self.module)):
            _replace(self.module)
        return _methods[self.name]


# otherwise instances would show the docstring of the class
Method.__doc__ = property(lambda self: self.__wrapped__.__doc__)  # type: ignore[assignment]


def _replace(module: str) -> None:
    """Replace a family's descriptors by its methods, except those that the program has replaced."""
    for name, method in METHODS.items():
        if method.module == module and vars(Tensor).get(name) is method:
            setattr(Tensor, name, _methods[name])


#: the methods of all families
METHODS: dict[str, Method] = {
    name.removeprefix("."): Method(name.removeprefix("."), f"fgrad.torch.{module}")
    for module, names in FAMILIES.items()
    for name in names.split()
    if "." not in name[1:] and not name.endswith("()")
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)


def put_method(name: str, method: Callable[..., Any]) -> None:
    """Give tensors a method; one of a family replaces its descriptor when the whole family has been imported."""
    if name in METHODS:
        _methods[name] = entered_method(name, method)
    else:
        setattr(Tensor, name, method)
