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

    `text` is its name on the command line: "gpt2:layers=2" or "net.onnx".
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def graph(self, batch: int | None = None, dtype: str = "fp32") -> Graph:
        """Returns the graph for a global batch. By default the model chooses a small batch."""
        return Graph(_core.Graph.build(self.text, batch or 0, dtype))

    def figures(self, batch: int = 1) -> dict[str, Any]:
        """Returns the document of `tandem show MODEL --json`: parameters, nodes, operations, operators."""
        result: dict[str, Any] = command("show", self.text, batch=batch)
        return result

    @property
    def parameters(self) -> int:
        return self.graph().parameters

    def __repr__(self) -> str:
        return f"<Model {self.text}>"


AnyModel = Union[str, "os.PathLike[str]", Model, Graph]


def models() -> list[dict[str, Any]]:
    """Lists the built-in models: "name", "doc", "parameters", "nodes", "hyperparameters"."""
    result: list[dict[str, Any]] = command("models")
    return result


def model(name: str, **hyperparameters: int | float | str) -> Model:
    """Returns a built-in model, with hyperparameters of your own: ``model("gpt2", layers=4)``."""
    return _build_model(name, hyperparameters)


def load(path: str | os.PathLike[str], **sizes: int) -> Model:
    """Reads a model from a file: ONNX, graph text or JSON, or a config.json. `sizes` are the dimensions that the
    file leaves open, or hyperparameters for a config.json."""
    return _build_model(os.fspath(path), sizes)


def from_onnx(path: str | os.PathLike[str], **dims: int) -> Model:
    """Reads a model from an ONNX file. `dims` are the sizes of dimensions that the file leaves open, except the
    batch. The model gets a loss, the squared error of its first output. docs/guides/onnx.md has the details."""
    return _build_model(os.fspath(path), dims)


def from_torch(
    module: torch.nn.Module,
    example_inputs: Any,
    *,
    path: str | os.PathLike[str] | None = None,
    opset: int = 14,
) -> Model:
    """Exports a `torch.nn.Module` as a model, by ONNX, for inputs like `example_inputs`: a tensor, a NumPy
    array, or a tuple of these. Their first dimension is the batch.

    With `path` the ONNX file remains, so that plans can be checked after Python ends. This is the only function
    that needs torch.
    """
    try:
        import torch
    except ImportError as error:
        raise Error("model", "from_torch", "needs torch", "pip install torch") from error
    inputs = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    tensors = tuple(torch.as_tensor(value) for value in inputs)
    file = os.fspath(path) if path is not None else _files.make_path(f"{type(module).__name__}.onnx")
    names = [f"in{number}" for number in range(len(tensors))]
    options: dict[str, Any] = {
        "opset_version": opset,
        # The training graph, with constants as operators.
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
    return _build_model(file, {})


def _build_model(text: str, overrides: dict[str, Any]) -> Model:
    """Returns the model after building its graph, which raises `Error` if the model is wrong."""
    if overrides:
        has_some = ":" in text and not os.path.exists(text)
        text += ("," if has_some else ":") + ",".join(f"{key}={value}" for key, value in overrides.items())
    out = Model(text)
    out.graph()
    return out


def format_model(model: AnyModel) -> str:
    """Returns the name or path of `model` on the command line."""
    if isinstance(model, Model):
        return model.text
    return model.path if isinstance(model, Graph) else os.fspath(model)
