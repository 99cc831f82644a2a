"""Models: networks for any batch, by name or from files."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any, Union

from . import _core, _files
from ._commands import command
from ._errors import Error
from ._graphs import Graph

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found,unused-ignore]


class Model:
    """A network whose batch is open: built in, or in a file.

    `text` is what the command line calls it: "gpt2:layers=2" or "net.onnx".
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def graph(self, batch: int | None = None, dtype: str = "fp32") -> Graph:
        """Its graph for a global batch; by default a small one of the model's own."""
        return Graph(_core.Graph.build(self.text, batch or 0, dtype))

    def figures(self, batch: int = 1) -> dict[str, Any]:
        """Parameters, nodes, operations, operators: what `tandem show MODEL --json` prints."""
        result: dict[str, Any] = command("show", self.text, batch=batch)
        return result

    @property
    def parameters(self) -> int:
        return self.graph().parameters

    def __repr__(self) -> str:
        return f"<Model {self.text}>"


AnyModel = Union[str, "os.PathLike[str]", Model, Graph]


def models() -> list[dict[str, Any]]:
    """List the built-in models: "name", "doc", "parameters", "nodes", "hyperparameters"."""
    result: list[dict[str, Any]] = command("models")
    return result


def model(name: str, **hyperparameters: int | float | str) -> Model:
    """Return a built-in model, with hyperparameters of your own: ``model("gpt2", layers=4)``."""
    return _checked(name, hyperparameters)


def load(path: str | os.PathLike[str], **sizes: int) -> Model:
    """Read a model from a file: ONNX, graph text or JSON, or a config.json. `sizes` are of what
    it leaves open, or, of a config.json, hyperparameters."""
    return _checked(os.fspath(path), sizes)


def from_onnx(path: str | os.PathLike[str], **dims: int) -> Model:
    """Read a model from an ONNX file. `dims` are sizes that the file leaves open, but for the batch. Gets a loss, the
    squared error of its first output. docs/guides/onnx.md says what is read."""
    return _checked(os.fspath(path), dims)


def from_torch(
    module: torch.nn.Module,
    example_inputs: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    opset: int = 14,
) -> Model:
    """Export a `torch.nn.Module` as a model, by ONNX, for inputs like `example_inputs`: a tensor, an array of
    NumPy, or a tuple of these. Their first dimension is the batch.

    `path` keeps the ONNX file, so that plans can be checked after Python ends. Needs torch, which nothing
    else here does.
    """
    try:
        import torch
    except ImportError as error:
        raise Error("model", "from_torch", "needs torch", "pip install torch") from error
    inputs = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    tensors = tuple(torch.as_tensor(value) for value in inputs)
    file = os.fspath(path) if path is not None else _files.new_path(f"{type(module).__name__}.onnx")
    names = [f"in{number}" for number in range(len(tensors))]
    options: dict[str, Any] = {
        "opset_version": opset,
        # As it is trained; its constants stay operators.
        "training": torch.onnx.TrainingMode.TRAINING,
        "do_constant_folding": False,
        "input_names": names,
        "dynamic_axes": {name: {0: "batch"} for name, t in zip(names, tensors) if t.dim() > 0},
    }
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False
    was_training = module.training
    try:
        torch.onnx.export(module, tensors, file, **options)
    except Exception as error:
        raise Error("model", type(module).__name__, f"cannot be exported: {error}") from error
    finally:
        module.train(was_training)
    return _checked(file, {})


def _checked(text: str, overrides: dict[str, Any]) -> Model:
    """The model, once it is known that it can be built."""
    if overrides:
        has_some = ":" in text and not os.path.exists(text)
        text += ("," if has_some else ":") + ",".join(f"{key}={value}" for key, value in overrides.items())
    out = Model(text)
    out.graph()
    return out


def text_of(model: AnyModel) -> str:
    """What the command line calls it."""
    if isinstance(model, Model):
        return model.text
    return model.path if isinstance(model, Graph) else os.fspath(model)
