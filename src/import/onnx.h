// Reads ONNX files into graphs.
//
// Nodes that compute become nodes of the graph. Nodes that only compute shapes (Shape, Gather,
// Concat, ... of known numbers) are folded. Floating-point initializers become weights, except
// running statistics, masks and scalars, which are not trained. The bytes of the file are read in
// place; weights are not copied. docs/guides/onnx.md lists what is supported.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"

namespace tandem::import {

struct OnnxOptions {
  // size of the first dimension of the inputs; 0: the file's, or 1 if it is symbolic
  std::int64_t batch = 0;
  std::map<std::string, std::int64_t> dims = {};  // sizes of symbolic dimensions
  bool append_loss = false;    // mse of the first output against an input `target`
  std::string directory = {};  // directory of external data; empty: it is not read
};

struct OnnxModel {
  graph::Graph graph;
  std::int64_t batch = 1;
  std::int64_t opset = 0;
  // Number of nodes that left nothing in the graph, by ONNX operator: "Shape" -> 12.
  std::map<std::string, int> folded;
  // Contents of the inputs that the file stores and that are not trained, such as masks that are
  // not causal; by name of the node.
  std::map<std::string, Dense<double>> fixed;
  // Names of the inputs that the file computes from integer inputs: positions, masks.
  std::vector<std::string> derived;
  // Name in the file of every weight and input.
  std::map<std::string, std::string> names;
};

// Imports `file`, which holds a ModelProto; `source` is its name in messages. Throws UserError of
// kind "onnx" that names the node.
OnnxModel import_onnx(std::string_view file, const std::string& source,
                      const OnnxOptions& options = {});
OnnxModel import_onnx_file(const std::string& path, const OnnxOptions& options = {});

// Returns the contents of a weight by its name in the file; `directory` is as in OnnxOptions.
Dense<double> read_weight(std::string_view file, const std::string& name,
                          const std::string& directory = "");

// Returns whether `path` or the first bytes of the file, `beginning`, are those of an ONNX file.
bool is_onnx(const std::string& path, std::string_view beginning);

// Returns whether the file at `path` is an ONNX file. Reads only its beginning.
bool is_onnx_file(const std::string& path);

// Returns all operators that are converted or folded, in alphabetical order.
std::vector<std::string> list_supported_onnx_operators();

}  // namespace tandem::import
