"""Programs of JAX's tutorials and of papers' code, each a function of the library that differentiates."""

import functools, math
from functools import partial
import jax, jax.flatten_util, jax.numpy as jnp, numpy as np, optax
from jax import lax, random

K = random.key(0)
P = {}


def prog(f):
    P[f.__name__] = f
    return f


X = random.normal(K, (6, 4))
Y = jnp.sin(X[:, 0])


def mlp_init(sizes, key=K):
    return [
        (random.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n))
        for k, m, n in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:])
    ]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


loss = lambda p, x=X, y=Y: jnp.mean((mlp(p, x)[:, 0] - y) ** 2)


@prog
def deq_fixed_point(lib):
    @partial(lib.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x0):
        return lax.while_loop(
            lambda s: jnp.max(jnp.abs(s[0] - s[1])) > 1e-6, lambda s: (s[1], f(a, s[1])), (x0, f(a, x0))
        )[1]

    def fwd(f, a, x0):
        xs = fixed_point(f, a, x0)
        return xs, (a, xs)

    def bwd(f, res, ct):
        a, xs = res
        _, vjp_a = lib.vjp(lambda a: f(a, xs), a)
        rev = lambda p, u: p[2] + lib.vjp(lambda x: f(p[0], x), p[1])[1](u)[0]
        return *vjp_a(fixed_point(rev, (a, xs, ct), ct)), jnp.zeros_like(xs)

    fixed_point.defvjp(fwd, bwd)
    s = lambda a: jnp.sum(fixed_point(lambda a, x: jnp.tanh(a @ x * 0.3 + 0.1), a, jnp.zeros(4)))
    A = random.normal(K, (4, 4))
    return lib.grad(s)(A), jax.jit(lib.grad(s))(A), lib.grad(lambda c: lib.grad(s)(c * A)[0, 0])(0.7) if False else s(A)


@prog
def sqrt_newton_second(lib):
    @partial(lib.custom_vjp, nondiff_argnums=(0,))
    def fp(f, a, x):
        return lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-6, lambda s: (s[1], f(a, s[1])), (x, f(a, x)))[1]

    def rev_iter(f, packed, u):
        a, xs, xsb = packed
        _, v = lib.vjp(partial(f, a), xs)
        return xsb + v(u)[0]

    fp.defvjp(
        lambda f, a, x: (lambda s: (s, (a, s)))(fp(f, a, x)),
        lambda f, r, ct: (
            *lib.vjp(lambda a: f(a, r[1]), r[0])[1](fp(partial(rev_iter, f), (*r, ct), ct)),
            jnp.zeros_like(r[1]),
        ),
    )
    ns = lambda a: fp(lambda a, x: 0.5 * (x + a / x), a, a)
    return lib.grad(ns)(2.0), lib.grad(lib.grad(ns))(2.0)


@prog
def implicit_custom_root(lib):
    def solve(a):
        return lax.custom_root(
            lambda x: x**3 - a,
            1.0,
            lambda f, x: lax.fori_loop(0, 20, lambda _, x: x - f(x) / (3 * x * x), x),
            lambda g, y: y / g(1.0),
        )

    return lib.grad(solve)(3.0), lib.jvp(solve, (3.0,), (1.0,)), lib.hessian(solve)(2.0)


@prog
def custom_linear_solve(lib):
    A = X.T @ X + jnp.eye(4)

    def f(A, b):
        return jnp.sum(
            lax.custom_linear_solve(lambda x: A @ x, b, lambda mv, b: jnp.linalg.solve(A, b), symmetric=True) ** 2
        )

    return lib.grad(f, (0, 1))(A, X[0]), lib.jacfwd(f, 1)(A, X[0]), lib.hessian(f, 1)(A, X[0])


@prog
def cg_gmres_bicg(lib):
    A = X.T @ X + jnp.eye(4)
    return [
        lib.grad(lambda A: jnp.sum(s(lambda v: A @ v, X[0])[0] ** 2))(A)
        for s in (jax.scipy.sparse.linalg.cg, jax.scipy.sparse.linalg.gmres, jax.scipy.sparse.linalg.bicgstab)
    ]


@prog
def ntk(lib):
    p = mlp_init([4, 8, 2])
    J = lib.jacobian(lambda p: mlp(p, X))(p)
    return sum(jnp.einsum("na...,mb...->nmab", j, j) for j in jax.tree.leaves(J))


@prog
def ntk_vjp(lib):
    p = mlp_init([4, 8, 2])

    def k(x1, x2):
        f1, f2 = (lambda p, x=x: mlp(p, x) for x in (x1, x2))
        _, vf = lib.vjp(f2, p)
        return jax.vmap(lambda v: lib.jvp(f1, (p,), vf(v))[1])(jnp.eye(2))

    return jax.vmap(lambda a: jax.vmap(lambda b: k(a, b))(X))(X)


@prog
def maml(lib):
    p = mlp_init([4, 8, 1])
    inner = lambda p, x, y: jax.tree.map(lambda w, g: w - 0.1 * g, p, lib.grad(loss)(p, x, y))

    def meta(p, xs, ys):
        return jnp.mean(jax.vmap(lambda x, y: loss(inner(p, x[:1], y[:1]), x[1:], y[1:]))(xs, ys))

    xs, ys = X.reshape(2, 3, 4), Y.reshape(2, 3)
    opt = optax.adam(0.01)
    s = opt.init(p)
    ls = []
    for _ in range(5):
        l, g = lib.value_and_grad(meta)(p, xs, ys)
        u, s = opt.update(g, s)
        p = optax.apply_updates(p, u)
        ls.append(l)
    return ls, p


@prog
def per_example_clip(lib):
    p = mlp_init([4, 8, 1])
    gs = jax.vmap(lib.grad(lambda p, x, y: loss(p, x[None], y[None])), (None, 0, 0))(p, X, Y)
    g = jax.vmap(optax.global_norm)(gs)
    return g, gs


@prog
def hvp_modes(lib):
    p = mlp_init([4, 8, 1])
    v = jax.tree.map(jnp.ones_like, p)
    return (
        lib.jvp(lib.grad(loss), (p,), (v,))[1],
        lib.grad(lambda p: sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(lib.grad(loss)(p)), jax.tree.leaves(v))))(
            p
        ),
        lib.vjp(lib.grad(loss), p)[1](v)[0],
        lib.linearize(lib.grad(loss), p)[1](v),
    )


@prog
def influence(lib):
    p, un = jax.flatten_util.ravel_pytree(mlp_init([4, 3, 1]))
    L = lambda w: loss(un(w))
    H = lambda v: lib.jvp(lib.grad(L), (p,), (v,))[1] + 2.0 * v
    return jax.scipy.sparse.linalg.cg(H, lib.grad(L)(p), maxiter=30)[0]


@prog
def ode_adjoint(lib):
    from jax.experimental.ode import odeint

    p = mlp_init([2, 6, 2])
    f = lambda y, t, p: mlp(p, y[None])[0] - 0.1 * y
    return lib.value_and_grad(
        lambda p, y0: jnp.sum(odeint(f, y0, jnp.linspace(0.0, 1.0, 4), p, rtol=1e-4) ** 2), (0, 1)
    )(p, jnp.array([1.0, 0.5]))


@prog
def cnf_trace(lib):
    p = mlp_init([2, 6, 2])
    f = lambda x: mlp(p, x[None])[0]
    div = lambda x: jnp.trace(lib.jacfwd(f)(x))
    e = jnp.array([1.0, -1.0])
    hutch = lambda x: jnp.vdot(e, lib.vjp(f, x)[1](e)[0])
    x = jnp.array([0.3, -0.2])
    return div(x), lib.grad(div)(x), hutch(x), lib.grad(hutch)(x)


@prog
def score_matching(lib):
    p = mlp_init([2, 8, 1])
    e = lambda p, x: mlp(p, x[None])[0, 0]
    s = lib.grad(e, 1)
    sm = lambda p, x: 0.5 * jnp.sum(s(p, x) ** 2) + jnp.trace(lib.jacfwd(s, 1)(p, x))
    return lib.value_and_grad(lambda p: jnp.mean(jax.vmap(lambda x: sm(p, x))(X[:, :2])))(p)


@prog
def pinn(lib):
    p = mlp_init([2, 8, 1])
    u = lambda p, t, x: mlp(p, jnp.stack([t, x])[None])[0, 0]
    r = lambda p, t, x: (
        lib.grad(u, 1)(p, t, x) + u(p, t, x) * lib.grad(u, 2)(p, t, x) - 0.01 * lib.grad(lib.grad(u, 2), 2)(p, t, x)
    )
    L = lambda p: jnp.mean(jax.vmap(lambda z: r(p, z[0], z[1]))(X[:, :2]) ** 2)
    g = jax.jit(lib.value_and_grad(L))
    ls = []
    for _ in range(3):
        l, d = g(p)
        p = jax.tree.map(lambda a, b: a - 0.01 * b, p, d)
        ls.append(l)
    return ls, p


@prog
def laplacian_hamiltonian(lib):
    H = lambda q, p: jnp.sum(p**2) / 2 + jnp.sum(jnp.cos(q))
    L = lambda q, v: jnp.sum(v**2) * jnp.exp(-q[0]) - jnp.sum(q**2)
    q, v = X[0, :2], X[1, :2]
    acc = jnp.linalg.solve(lib.hessian(L, 1)(q, v), lib.grad(L, 0)(q, v) - lib.jacfwd(lib.grad(L, 1), 0)(q, v) @ v)
    step = lambda s, _: ((s[0] + 0.1 * lib.grad(H, 1)(*s), s[1] - 0.1 * lib.grad(H, 0)(*s)), s[0])
    return acc, lax.scan(step, (q, v), length=5), lib.grad(lambda q: lax.scan(step, (q, v), length=5)[0][0].sum())(q)


@prog
def md_energy(lib):
    R = random.uniform(K, (5, 3)) * 3

    def E(R):
        d = R[:, None] - R[None]
        r2 = jnp.sum(d**2, -1)
        m = ~jnp.eye(5, dtype=bool)
        r2 = jnp.where(m, r2, 1.0)
        s = (1 / r2) ** 3
        return 0.5 * jnp.sum(jnp.where(m, 4 * (s**2 - s), 0.0))

    F = lambda R: -lib.grad(E)(R)
    return F(R), lib.jacrev(F)(R), lib.grad(lambda s: E(R * (1 + s)))(0.0)


@prog
def hmm_forward(lib):
    def ll(t, o):
        T, O = jax.nn.log_softmax(t), jax.nn.log_softmax(o)
        obs = jnp.array([0, 1, 2, 1, 0, 2])
        step = lambda a, y: (jax.scipy.special.logsumexp(a[:, None] + T, axis=0) + O[:, y], None)
        return jax.scipy.special.logsumexp(lax.scan(step, O[:, 0], obs[1:])[0])

    return lib.value_and_grad(ll, (0, 1))(X[:3, :3], X[3:6, :3]), lib.hessian(ll)(X[:3, :3], X[3:6, :3])


@prog
def associative(lib):
    def f(a, b):
        op = lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1])
        return jnp.sum(lax.associative_scan(op, (a, b))[1] ** 2)

    return lib.grad(f, (0, 1))(jax.nn.sigmoid(X), X), lib.grad(lambda x: jnp.sum(lax.associative_scan(jnp.maximum, x)))(
        Y
    )


@prog
def rnn_bptt(lib):
    w = {"h": X[:4] * 0.3, "x": X[2:6] * 0.3, "b": jnp.zeros(4)}
    run = lambda w, remat: lax.scan(
        (lib.checkpoint if remat else lambda f: f)(
            lambda h, x: (lambda n: (n, n.sum()))(jnp.tanh(h @ w["h"] + x @ w["x"] + w["b"]))
        ),
        jnp.zeros(4),
        X,
    )[1].sum()
    return lib.grad(run)(w, False), lib.grad(run)(w, True), jax.jit(lib.grad(run), static_argnums=1)(w, True)


@prog
def optax_losses(lib):
    l, lab = X, jnp.array([0, 1, 2, 3, 0, 1])
    one = jax.nn.one_hot(lab, 4)
    fs = [
        lambda x: optax.softmax_cross_entropy(x, one).sum(),
        lambda x: optax.sigmoid_binary_cross_entropy(x, one).sum(),
        lambda x: optax.huber_loss(x, one).sum(),
        lambda x: optax.log_cosh(x, one).sum(),
        lambda x: optax.cosine_distance(x, one + 0.1).sum(),
        lambda x: optax.losses.poly_loss_cross_entropy(x, one).sum(),
        lambda x: optax.losses.sigmoid_focal_loss(x, one).sum(),
        lambda x: optax.losses.kl_divergence(jax.nn.log_softmax(x), one).sum(),
        lambda x: optax.losses.hinge_loss(x[:, 0], 2.0 * (lab > 1) - 1).sum(),
        lambda x: (
            optax.losses.triplet_margin_loss(x, x[::-1], one).sum()
            if hasattr(optax.losses, "triplet_margin_loss")
            else x.sum()
        ),
        lambda x: optax.losses.ntxent(x, lab).sum() if hasattr(optax.losses, "ntxent") else x.sum(),
        lambda x: optax.projections.projection_simplex(x[0])[0],
        lambda x: optax.losses.sparsemax_loss(x[:, 0], lab % 2).sum(),
        lambda x: (
            optax.losses.ranking_softmax_loss(x, one) if hasattr(optax.losses, "ranking_softmax_loss") else x.sum()
        ),
    ]
    return [lib.grad(f)(l) for f in fs]


@prog
def meta_gradient_lr(lib):
    p = mlp_init([4, 6, 1])

    def outer(eta, beta):
        opt = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(eta, momentum=beta))
        s = opt.init(p)
        q = p

        def step(c, _):
            q, s = c
            g = lib.grad(loss)(q)
            u, s = opt.update(g, s, q)
            return (optax.apply_updates(q, u), s), None

        return loss(lax.scan(step, (q, s), length=4)[0][0])

    return lib.value_and_grad(outer, (0, 1))(0.1, 0.9)


@prog
def random_reparam(lib):
    k = K
    fs = [
        lambda a: random.gamma(k, a, (3,)).sum(),
        lambda a: random.beta(k, a, 2.0, (3,)).sum(),
        lambda a: random.dirichlet(k, jnp.stack([a, 1.0, 2.0])).max(),
        lambda a: (a * random.normal(k, (3,))).sum(),
        lambda a: random.t(k, a, (3,)).sum(),
        lambda a: random.multivariate_normal(k, jnp.zeros(2), jnp.array([[1.0, 0.2], [0.2, 1.0]]) * a).sum(),
        lambda a: jax.nn.softmax((jnp.arange(3.0) * a + random.gumbel(k, (3,))) / 0.5)[0],
        lambda a: random.loggamma(k, a, (2,)).sum(),
        lambda a: random.truncated_normal(k, -a, a, (3,)).sum(),
        lambda a: random.chisquare(k, a, shape=(2,)).sum(),
    ]
    return [lib.grad(f)(1.3) for f in fs]


@prog
def complexes(lib):
    z = X[0] + 1j * X[1]
    fs = [
        lambda z: jnp.sum(jnp.abs(z) ** 2),
        lambda z: jnp.sum(jnp.angle(z)),
        lambda z: jnp.real(jnp.sum(jnp.exp(z) * jnp.conj(z))),
        lambda z: jnp.sum(jnp.abs(jnp.fft.ifft(z))),
        lambda z: jnp.real(jnp.sum(jnp.sqrt(z) / (z + 2))),
    ]
    return (
        [lib.grad(f)(z) for f in fs],
        lib.grad(lambda z: jnp.sum(z**3), holomorphic=True)(z),
        lib.jacrev(lambda z: jnp.sin(z), holomorphic=True)(z),
    )


@prog
def control(lib):
    def f(x):
        return lax.cond(
            x[0] > 0,
            lambda x: jnp.sin(x).sum(),
            lambda x: lax.switch(2, [jnp.sum, jnp.prod, lambda x: (x**2).sum()], x),
            x,
        )

    g = lambda x: lax.while_loop(lambda s: s[1] < 5, lambda s: (jnp.sin(s[0]) + s[0], s[1] + 1), (x, 0))[0].sum()
    h = lambda x, n: lax.fori_loop(0, n, lambda i, c: c * x + i, 1.0 * x)
    return (
        lib.grad(f)(X[0]),
        lib.grad(f)(-jnp.abs(X[0])),
        lib.jvp(g, (X[0],), (X[1],)),
        lib.jacfwd(g)(X[0]),
        lib.grad(h)(1.1, 4),
        jax.vmap(lib.grad(f))(X),
        lib.grad(lambda x: jax.vmap(lambda i: lax.cond(i > 0, jnp.sin, jnp.cos, x * i))(Y).sum())(0.5),
    )


@prog
def custom_rules(lib):
    @lib.custom_jvp
    def log1pexp(x):
        return jnp.log(1.0 + jnp.exp(x))

    log1pexp.defjvp(lambda p, t: (log1pexp(p[0]), (1 - 1 / (1 + jnp.exp(p[0]))) * t[0]))

    @partial(lib.custom_vjp, nondiff_argnums=(0,))
    def app(f, x):
        return f(x)

    app.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (5.0 * g,))

    @lib.custom_vjp
    def clip(lo, hi, x):
        return x

    clip.defvjp(lambda lo, hi, x: (x, (lo, hi)), lambda r, g: (None, None, jnp.clip(g, r[0], r[1])))
    ste = lambda x: x + lax.stop_gradient(jnp.round(x) - x)
    return (
        lib.grad(log1pexp)(100.0),
        jax.vmap(lib.grad(log1pexp))(Y),
        lib.hessian(log1pexp)(1.0),
        lib.grad(app, 1)(jnp.sin, 2.0),
        lib.grad(lambda x: clip(-0.3, 0.3, jnp.sin(x * 3)).sum())(Y),
        lib.grad(lambda x: ste(x).sum())(Y),
    )


@prog
def weak_types(lib):
    fs = [
        lambda x: x * 2,
        lambda x: jnp.sin(x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0),
        lambda x: jnp.where(x > 0, x, 0.0),
        lambda x: x**2,
        lambda x: lax.cond(x > 0, lambda y: y, lambda y: -y, x),
        lambda x: jnp.array([1.0, 2.0]).sum() * x,
        lambda x: jnp.real(x + 0j),
        lambda x: jnp.maximum(x, 1.0),
        lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, length=2)[0],
    ]
    o = []
    for f in fs:
        for x in (1.5, jnp.float32(1.5), jnp.asarray(1.5), np.float32(1.5), np.float64(1.5)):
            v, g = lib.value_and_grad(f)(x)
            o += [
                (
                    float(v),
                    float(g),
                    v.weak_type * 1,
                    g.weak_type * 1,
                    str(v.dtype) == "float32",
                    lib.jvp(
                        f, (x,), (1.0 if isinstance(x, float) and not isinstance(x, np.floating) else jnp.float32(1.0),)
                    )[1].weak_type
                    * 1,
                )
            ]
    return o


@prog
def callbacks(lib):
    seen = []

    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x.sum())
        jax.debug.print("{}", x[0], ordered=False) if False else None
        return jnp.sin(x).sum()

    g = lib.grad(f)(X[0])
    jax.effects_barrier()

    @lib.custom_vjp
    def host(x):
        return jax.pure_callback(
            lambda v: np.sin(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"
        )

    host.defvjp(lambda x: (host(x), x), lambda x, g: (g * jnp.cos(x),))
    return g, len(seen), lib.grad(lambda x: host(x).sum())(X[0]), jax.vmap(lib.grad(lambda x: host(x).sum()))(X)


@prog
def refs(lib):
    def f(x):
        r = jax.new_ref(jnp.zeros(()))
        [r.__setitem__(..., r[...] + jnp.sin(x * i)) for i in range(3)]
        return r[...]

    def g(x):
        r = jax.new_ref(jnp.zeros_like(x))
        lax.fori_loop(0, 4, lambda i, _: (r.__setitem__(i, x[i] ** 2), None)[1], None)
        return r[...].sum()

    return lib.grad(f)(0.7), lib.grad(g)(X[0]), jax.jit(lib.grad(g))(X[0])


@prog
def refs_for_plumbing(lib):
    """Gradients of what is inside are taken out through a reference, and added up in others."""

    @lib.custom_vjp
    def stash(grads, x):
        return x

    stash.defvjp(lambda grads, x: (x, grads), lambda grads, g: (grads.__setitem__(..., g), (None, g))[1])
    inside, total = jax.new_ref(jnp.zeros(4)), {"w": jax.new_ref(jnp.zeros((4, 4)))}
    g = lib.grad(lambda x, grads: jnp.sum(jnp.sin(stash(grads, x * 2)) ** 2))(X[0], inside)

    def accumulate(p, total, x):
        grads = lib.grad(lambda p: jnp.sum(jnp.tanh(x @ p["w"]) ** 2))(p)
        jax.tree.map(lambda ref, g: ref.__setitem__(..., ref[...] + g), total, grads)

    for x in X[:3]:
        jax.jit(accumulate)({"w": jnp.eye(4)}, total, x)
    return g, inside[...], total["w"][...]


def raises(f):
    """1 if a call raises an error, else nothing."""
    try:
        jax.block_until_ready(f())
    except Exception:
        return jnp.ones(1)
    return jnp.zeros(0)


@prog
def linearize_like(lib):
    f = lambda x, y: (jnp.sin(x) @ y, {"k": (x * y).sum() ** 2})
    a, b = X[0], X[1]
    out, fj = lib.linearize(f, a, b)
    _, pull = lib.vjp(f, a, b)
    tr = lib.linear_transpose(lambda t: jnp.cumsum(t)[::-1] * 2, a)
    _, fj2 = jax.jit(lambda a, b: lib.linearize(f, a, b)[0])(a, b), 0
    po = lib.linear_transpose(lambda t, u: (t @ X.T, u * 3), jax.ShapeDtypeStruct((4,), jnp.float32), 1.0)
    gn = lambda v: pull(fj(v, jnp.zeros(4)))[0]
    o, fa, aux = lib.linearize(lambda x: (x**2, {"a": x.sum()}), a, has_aux=True)
    o2, pa, aux2 = lib.vjp(lambda x: (x**3, x), a, has_aux=True)
    jaux = lib.jvp(lambda x: (x**2, 3.0), (a,), (b,), has_aux=True)
    cgs = jax.scipy.sparse.linalg.cg(lambda v: gn(v) + v, b)[0]
    leaves, td = jax.tree.flatten(pull)
    pull2 = jax.tree.unflatten(td, leaves)
    vm = jax.vmap(fj, (0, None))(jnp.eye(4), b * 0)
    vp = jax.vmap(pull)((jnp.arange(3.0), {"k": jnp.ones(3)}))
    through = jax.jit(lambda p, c: p(c))(pull, (1.0, {"k": 2.0}))
    return (
        out,
        fj(b, a),
        pull((1.0, {"k": 2.0})),
        tr(a),
        po((jnp.arange(6.0), 2.0)),
        cgs,
        o,
        fa(b),
        aux,
        pa(o2),
        aux2,
        jaux,
        pull2((1.0, {"k": 2.0})),
        vm,
        vp,
        through,
        lib.grad(lambda s: lib.linearize(lambda x: jnp.sin(x * s), a)[1](b).sum())(2.0),
        lib.grad(lambda s: lib.linear_transpose(lambda t: t * s, a)(b)[0].sum() * s)(3.0),
        raises(lambda: fj(b)),
        raises(lambda: fj(b, a.astype(jnp.float16))),
        raises(lambda: pull(1.0)),
        raises(lambda: lib.linear_transpose(jnp.sin, a)(a)),
        raises(lambda: pull((jnp.ones(2), {"k": 1.0}))),
        raises(lambda: lib.jvp(f, (a, b), (a,))),
        raises(lambda: lib.jvp(f, (a, b), (a, b.astype(int)))),
        raises(lambda: lib.linearize(f, "a", b)),
    )


@prog
def x64_islands(lib):
    with jax.enable_x64(True):
        x = jnp.arange(4.0) / 3
        f = lambda x: (
            jnp.sum(jnp.cumsum(x) ** 3 / (1 + x.astype(jnp.float32)))
            + lax.fori_loop(0, 3, lambda i, c: c + x[i] ** 2, 0.0)
        )
        a = (
            lib.value_and_grad(f)(x),
            lib.hessian(f)(x),
            jax.jit(lib.grad(f))(x),
            lib.grad(lambda x: x.astype(jnp.float32).sum() * 2)(x),
            lib.grad(lambda z: (z * z.conj()).real.sum())(x + 1j),
            lib.grad(lambda x: jnp.linalg.slogdet(jnp.eye(4) + jnp.outer(x, x))[1])(x),
        )
        b = lib.jvp(lambda x, n: x * n, (x, 3), (x, np.zeros((), jax.dtypes.float0)))
    return (
        a,
        b,
        lib.grad(lambda x: x**2)(1.5),
        lib.grad(lambda x: (x.astype(jnp.bfloat16) * 3).sum())(jnp.ones(2)),
        lib.grad(lambda x: jnp.sum(x * np.float64(2.0)))(jnp.ones(2, jnp.float16)),
        lib.value_and_grad(lambda x: x * np.int64(2))(2.0),
        lib.grad(lambda x: jnp.sin(x))(np.float64(2.0)),
        lib.vjp(lambda x: x.astype(jnp.int32) * 1.0, jnp.ones(2))[1](jnp.ones(2)),
    )


@prog
def linear_algebra(lib):
    a, r = X[:3, :3], X
    s = a @ a.T + 2 * jnp.eye(3)
    sla, nl = jax.scipy.linalg, jnp.linalg
    fs = [
        (lambda s: nl.cholesky(s), s),
        (lambda r: nl.qr(r), r),
        (lambda s: (nl.eigh(s)[0], jnp.abs(nl.eigh(s)[1])), s),
        (lambda r: nl.svd(r, compute_uv=False), r),
        (lambda a: sla.lu(a), a),
        (lambda a: sla.solve_triangular(a, a[0], trans="T", unit_diagonal=True), a),
        (lambda a: nl.slogdet(a)[1], a),
        (lambda r: nl.pinv(r), r),
        (lambda r: nl.lstsq(r, Y)[0], r),
        (lambda a: sla.expm(a * 0.3), a),
        (lambda a: [nl.norm(a, o) for o in (None, "nuc", 1, 2, jnp.inf)], a),
    ]
    total = lambda f: lambda x: sum(jnp.sum(y * jnp.cos(y)) for y in jax.tree.leaves(f(x)))
    return [
        (
            lib.grad(total(f))(x),
            lib.jvp(f, (x,), (x[::-1],)),
            lib.jvp(lib.grad(total(f)), (x,), (jnp.ones_like(x),))[1],
            jax.vmap(lib.grad(total(f)))(jnp.stack([x, x * 1.1])),
        )
        for f, x in fs
    ]


@prog
def rules_everywhere(lib):
    zero = jax.custom_derivatives.SymbolicZero

    @lib.custom_vjp
    def f(x, i, y):
        return x[i] * y, i + 1

    def fwd(x, i, y):
        return f(x.value, i.value, y.value), (x.value, i.value, y.value, y.perturbed)

    def bwd(kept, cts):
        x, i, y, perturbed = kept
        ct = jnp.zeros(i.shape) if isinstance(cts[0], zero) else cts[0]
        return jnp.zeros_like(x).at[i].add(2 * ct * y), None, jnp.sum(ct * x[i]) * (7.0 if perturbed else 11.0)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    i = jnp.array([0, 2, 2])
    g = lambda x, y: f(x, i, y)[0].sum()
    runs = [
        g,
        jax.jit(g),
        lib.checkpoint(g),
        lambda x, y: lax.scan(lambda c, _: (c + g(x, y), None), 0.0, length=3)[0],
        lambda x, y: lax.cond(y > 0, g, lambda x, y: y, x, y),
        lambda x, y: jax.vmap(g, (0, None))(jnp.stack([x, 2 * x]), y).sum(),
        lambda x, y: g(x, 3.0) + g(lax.stop_gradient(x), y),
    ]
    return [(lib.grad(r, (0, 1))(X[0], 2.0), jax.jit(lib.value_and_grad(r))(X[0], 2.0)) for r in runs]


@prog
def particle_filter(lib):
    def loss(theta, key):
        def step(carry, seen):
            x, key = carry
            key, move, choose = random.split(key, 3)
            x = theta * x + 0.5 * random.normal(move, x.shape)
            w = jax.scipy.stats.norm.logpdf(seen, x, 1.0)
            i = random.categorical(choose, lax.stop_gradient(w), shape=x.shape)
            return (x[i] * jnp.exp(0.01 * (w - lax.stop_gradient(w))[i]), key), jax.nn.logsumexp(w)

        return lax.scan(step, (jnp.zeros(32), key), jnp.sin(jnp.arange(6.0)))[1].sum()

    return lib.value_and_grad(loss)(0.7, K), jax.vmap(lib.grad(loss), (None, 0))(0.7, random.split(K, 2))


@prog
def optimisers(lib):
    def trained(make, rate):
        p, opt = mlp_init([4, 6, 1]), make(rate)
        state = opt.init(p)
        for _ in range(3):
            updates, state = opt.update(lib.grad(loss)(p), state, p)
            p = optax.apply_updates(p, updates)
        return loss(p)

    names = "adamw adamax nadam radam lamb lion novograd yogi sm3 fromage adabelief adafactor rprop"
    return [lib.value_and_grad(partial(trained, getattr(optax, name)))(0.01) for name in names.split()]


@prog
def linearize_at_references(lib):
    ref, tangent = jax.new_ref(X[0]), jax.new_ref(X[1])

    def f(ref, x):
        ref[...] = ref[...] * x
        return ref[...].sum()

    out, push = lib.linearize(f, ref, X[2])
    return out, ref[...], push(tangent, X[3]), tangent[...]
