"""Graphs: networks for one batch, node by node."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence, Union

import numpy as np

from . import _core, _files
from ._core import Node
from ._errors import Error

if TYPE_CHECKING:
    import numpy.typing as npt

Operand = Union[Node, str]


class Graph:
    """A network for one batch and element type: operators on tensors. Immutable.

    `GraphBuilder`, `Graph.load`, `Graph.parse` and `Model.graph` return graphs. The first output of a graph for
    training is the loss.
    """

    def __init__(self, core: _core.Graph) -> None:
        self._core = core
        self._path: str | None = None

    @staticmethod
    def parse(text: str, source: str = "graph") -> Graph:
        """Parses graph text or graph JSON. `source` is its name in error messages."""
        return Graph(_core.Graph.parse(text, source))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Graph:
        """Reads a file of graph text or graph JSON."""
        graph = Graph.parse(_read(path), os.fspath(path))
        graph._path = os.fspath(path)
        return graph

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as JSON if the path ends in .json, else as text. Later plans of the graph refer to
        this file, so that `check` finds it."""
        is_json = os.fspath(path).endswith(".json")
        pathlib.Path(path).write_text(self.to_json() if is_json else self.to_text(), encoding="utf-8")
        self._path = os.fspath(path)

    @property
    def path(self) -> str:
        """The file that the graph was read from or saved in, else a temporary file."""
        if self._path is None:
            self._path = _files.write(f"{self.name.replace('/', '_') or 'graph'}.graph", self.to_text())
        return self._path

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def nodes(self) -> list[Node]:
        """All nodes, operands before their users."""
        return self._core.nodes

    @property
    def inputs(self) -> list[Node]:
        return [node for node in self.nodes if node.op == "input"]

    @property
    def weights(self) -> list[Node]:
        return [node for node in self.nodes if node.op == "weight"]

    @property
    def outputs(self) -> list[str]:
        """The names of the output nodes."""
        return self._core.outputs

    @property
    def batch(self) -> int:
        """The first dimension of the first input."""
        return self._core.batch

    @property
    def parameters(self) -> int:
        """The number of elements of all weights."""
        return self._core.parameters

    @property
    def flops_forward(self) -> float:
        """The floating-point operations of one forward pass; a multiply-add counts 2."""
        return self._core.flops_forward

    def to_text(self) -> str:
        """Returns graph text, which `Graph.parse` reads."""
        return self._core.to_text()

    def to_json(self) -> str:
        """Returns graph JSON, which `Graph.parse` reads."""
        return self._core.to_json()

    def evaluate(
        self,
        values: Mapping[str, npt.ArrayLike] | None = None,
        wanted: Iterable[str] = (),
        seed: int = 0,
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Runs the forward pass in double precision with reference implementations of the operators. It is
        slow and meant for small graphs.

        `values` are the values of inputs and weights, by name. The others get random numbers, which depend on
        `seed`. Returns the values of the outputs, or of the nodes in `wanted`, by name.
        """
        arrays = {name: np.asarray(value) for name, value in (values or {}).items()}
        return self._core.evaluate(arrays, set(wanted), seed)

    def __len__(self) -> int:
        return len(self._core)

    def __eq__(self, other: object) -> bool:
        """Returns whether both are the same program on the same weights. Names of other nodes do not matter."""
        return isinstance(other, Graph) and self._core.identity_hash == other._core.identity_hash

    def __hash__(self) -> int:
        return self._core.identity_hash

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self)} nodes, {self.parameters} parameters, batch {self.batch}>"


class GraphBuilder:
    """A builder of graphs, node by node.

        b = tandem.GraphBuilder("small")
        x = b.input("x", [32, 64])
        h = b.linear(x, b.weight("w", [16, 64]), act="relu")
        graph = b.finish(b.mse(h, b.input("target", [32, 16])))

    Every operator of `tandem ops` is a method. Its keywords are the operator's attributes and `name`, the name
    of the node. An illegal node raises `Error` at once.
    """

    def __init__(self, name: str) -> None:
        self._core = _core.Builder(name)

    def input(
        self, name: str, shape: Sequence[int], dtype: str = "fp32", below: int | None = None
    ) -> Node:
        """Adds an input, which has new values in every step. Indices (dtype "int64") are less than `below`."""
        return self.add("input", name=name, shape=shape, dtype=dtype, below=below)

    def weight(
        self, name: str, shape: Sequence[int], dtype: str = "fp32", frozen: bool = False
    ) -> Node:
        """Adds a weight, which is trained unless it is `frozen`."""
        return self.add("weight", name=name, shape=shape, dtype=dtype, frozen=frozen or None)

    def add(self, op: str, *inputs: Operand, name: str = "", **attributes: Any) -> Node:
        """Applies the operator `op` to nodes and returns the new node. Attributes that are None have their default."""
        names = [node if isinstance(node, str) else node.name for node in inputs]
        pairs = [(key, _format_attribute(value)) for key, value in attributes.items() if value is not None]
        return self._core.add(op, names, pairs, name)

    def finish(self, *outputs: Operand) -> Graph:
        """Returns the graph with these outputs. The first output of a graph for training is its loss."""
        names = [node if isinstance(node, str) else node.name for node in outputs]
        return Graph(self._core.finish(names))

    def __getattr__(self, op: str) -> Callable[..., Node]:
        if op.startswith("_") or op not in _core.operators():
            raise AttributeError(f"there is no operator '{op}': `tandem ops` lists them")

        def apply(*inputs: Operand, name: str = "", **attributes: Any) -> Node:
            return self.add(op, *inputs, name=name, **attributes)

        return apply

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_core.operators()]


def _format_attribute(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(str(int(size)) for size in value)}]"
    return str(value)


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Error("file", os.fspath(path), "cannot be read") from error
