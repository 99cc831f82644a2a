// Reads ONNX files into graphs.
//
// What computes becomes nodes; what only says shapes (Shape, Gather, Concat, ... of known numbers)
// is folded away; initializers that are real become weights, unless nothing trains them: running
// statistics, masks and scalars. The file's bytes are read in place; weights are not copied.
// docs/onnx.md says what is supported and how it is read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/dense.h"

namespace tandem::import {

struct OnnxOptions {
  std::int64_t batch =
      0;  // for the first dimension of the inputs; 0: the file's, or 1 if it is open
  std::map<std::string, std::int64_t> dims = {};  // sizes for symbolic dimensions
  bool append_loss = false;  // mse of the first output against an input `target`
  std::string folder = {};   // of files that hold contents of tensors; empty: they are not read
};

struct OnnxModel {
  graph::Graph graph;
  std::int64_t batch = 1;
  std::int64_t opset = 0;
  // By ONNX operator, the nodes that left nothing in the graph: "Shape" -> 12.
  std::map<std::string, int> folded;
  // Inputs of the graph whose contents the file holds, and which are not trained: masks that are
  // no causal ones. By the name of the node.
  std::map<std::string, Dense<double>> fixed;
  // Inputs that the file computes from inputs of whole numbers: positions, masks. By name.
  std::vector<std::string> derived;
  // Of every weight and input, the name that it has in the file.
  std::map<std::string, std::string> names;
};

// `file` holds a ModelProto; `source` is how messages call it. Throws UserError of kind "onnx" that
// names the node.
OnnxModel import_onnx(std::string_view file, const std::string& source,
                      const OnnxOptions& options = {});
OnnxModel import_onnx_file(const std::string& path, const OnnxOptions& options = {});

// The contents of a weight, by its name in the file; `folder` as in OnnxOptions.
Dense<double> read_weight(std::string_view file, const std::string& name,
                          const std::string& folder = "");

// Is this a name or a beginning of an ONNX file?
bool is_onnx(const std::string& path, std::string_view beginning);

// The same of a file on disk. Reads only its beginning.
bool is_onnx_file(const std::string& path);

// All operators that are converted or folded, in alphabetical order.
std::vector<std::string> supported_onnx_operators();

}  // namespace tandem::import
