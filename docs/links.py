"""Names in the text are links: `fgrad.grad`, `jax.vmap` and `torch.no_grad` lead to where they are documented.

So that the source of a page stays plain Markdown, a piece of inline code that is the full name of something, with or
without arguments behind it, is looked up.  What is found nowhere stays as it is.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref

#: a dotted name of one of the libraries, and the calls that may follow
NAME = re.compile(r"(fgrad|torch|jax|jnp|lax|np|numpy)((?:\.[A-Za-z_]\w*)+)(?:\(.*\))*", re.DOTALL)
#: what the first part of a name stands for
FULL = {"jnp": "jax.numpy", "lax": "jax.lax", "np": "numpy", "torch": "fgrad.torch"}


def target(text: str) -> str | None:
    """The full name of what a piece of code names."""
    found = NAME.fullmatch(text)
    return FULL.get(found[1], found[1]) + found[2] if found is not None else None


def link_names(app: Any, doctree: Any) -> None:
    """Replace names in inline code by references to them."""
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | nodes.title | pending_xref):
            continue
        full = target(literal.astext())
        if full is not None:
            reference = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=full, refexplicit=True, refdoc=app.env.docname
            )
            literal.replace_self(reference)
            reference += literal


def look_in_pytorch(app: Any, env: Any, node: Any, content: Any) -> None:
    """What ``fgrad.torch`` has of PyTorch's is documented there: the next to be asked are the other sites."""
    if node["reftarget"].startswith("fgrad.torch."):
        node["reftarget"] = node["reftarget"].removeprefix("fgrad.")


def mend_backlinks(app: Any, pagename: str, templatename: str, context: Any, doctree: Any) -> None:
    """From a source file to the reference: Sphinx takes all of a module to be documented under the name of one part."""
    if not pagename.startswith("_modules/") or "body" not in context:
        return
    module = pagename.removeprefix("_modules/").replace("/", ".")
    known = app.env.domains.python_domain.objects

    def mended(found: re.Match[str]) -> str:
        parts = found[2].split(".")
        names = [found[2], *(f"{module}.{'.'.join(parts[-length:])}" for length in (1, 2))]
        return found[1] + next((name for name in names if name in known), found[2]) + '"'

    context["body"] = re.sub(r'(<a class="viewcode-back" href="[^"#]*#)([^"]*)"', mended, context["body"])
