"""A tensor's ``__dict__`` has the user's attributes alone."""

import copy
import pickle

import pytest

import fgrad.torch as torch


def test_a_new_tensor_has_no_attributes():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert vars(x) == {} and vars(x * 2) == {} and vars(torch.nn.Parameter(x)) == {}


def test_attributes_are_read_and_written_there():
    x = torch.ones(2)
    x.title = "one"
    assert x.__dict__ == {"title": "one"} and isinstance(x.__dict__, dict)
    x.__dict__["unit"] = "m"
    x.__dict__.update(colour="red")
    x.__dict__ |= {"size": 2}
    assert (x.unit, x.colour, x.size) == ("m", "red", 2)
    assert x.__dict__.pop("unit") == "m" and not hasattr(x, "unit")
    del x.__dict__["colour"]
    assert x.__dict__.setdefault("title", "two") == "one"
    with pytest.raises(KeyError):
        del x.__dict__["colour"]
    x.__dict__ = {"other": 3}
    assert vars(x) == {"other": 3} and x.other == 3 and x.tolist() == [1, 1]
    x.__dict__.clear()
    assert vars(x) == {}


def test_copied_attributes_leave_the_elements_alone():
    """As subclasses do it that keep facts beside their elements (in PyTorch, too)."""

    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs)
            if isinstance(result, cls):
                result.__dict__.update(args[0].__dict__)
            return result

    x = torch.ones(2).as_subclass(Tagged)
    x.tag = "t"
    y = x + 1
    assert y.tag == "t" and y.tolist() == [2, 2] and x.tolist() == [1, 1]


def test_the_bases_of_a_subclass_do_not_matter():
    """A base without fields of its own may come before the tensor, as in MONAI's class of images."""

    class Base:
        pass

    class Image(Base, torch.Tensor):
        pass

    class Facts:
        pass

    class Scan(Facts, Image):
        pass

    for cls in (Image, Scan):
        x = torch.ones(2).as_subclass(cls)
        x.unit = "mm"
        assert x.__dict__ == {"unit": "mm"} and vars(x) == {"unit": "mm"} and type(cls) is type(torch.Tensor)


def test_a_field_cannot_be_written_there():
    x = torch.ones(2)
    with pytest.raises(AttributeError, match="field '_storage' of its own"):
        x.__dict__["_storage"] = None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_the_attributes(copied):
    x = torch.arange(2.0)
    x.title = "one"
    y = copied(x)
    assert y.title == "one" and y.tolist() == [0, 1]
