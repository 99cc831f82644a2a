#include "import/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/mapped_file.h"
#include "import/importer.h"
#include "ops/registry.h"

namespace tandem::import {

const std::map<std::string_view, Converter>& converters() {
  static const auto* const kAll = [] {
    auto* all = new std::map<std::string_view, Converter>();
    for (const auto& list : {elementwise_converters(), image_converters(), matrix_converters(),
                             parts_converters(), shape_converters()}) {
      all->insert(list.begin(), list.end());
    }
    return all;
  }();
  return *kAll;
}

std::vector<std::string> list_supported_onnx_operators() {
  std::set<std::string> names;
  for (const auto& [name, converter] : converters()) names.emplace(name);
  for (auto name : list_foldable_operators()) names.emplace(name);
  for (const auto* spec : ops::all_ops()) {
    if (is_plain_operator(spec)) names.insert(spec->onnx.begin(), spec->onnx.end());
  }
  return {names.begin(), names.end()};
}

OnnxModel import_onnx(std::string_view file, const std::string& source,
                      const OnnxOptions& options) {
  Importer first(file, source, options);
  auto out = first.run();
  if (!first.needs_reimport_) return out;
  Importer second(file, source, options);
  second.below_ = first.below_;
  return second.run();
}

OnnxModel import_onnx_file(const std::string& path, const OnnxOptions& options) {
  const MappedFile file(path);
  // Protocol Buffers limits a message to 2 GiB, although a reader with 64-bit sizes would accept
  // more.
  if (file.bytes().size() > (std::size_t{1} << 31U)) {
    throw UserError("onnx", path, "is larger than 2 GiB", "store the weights as external data");
  }
  auto here = options;
  const auto slash = path.rfind('/');
  if (here.directory.empty())
    here.directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return import_onnx(file.bytes(), path, here);
}

namespace {

Dense<double> to_dense(const Known& k) {
  Dense<double> out{Shape(k.sizes)};
  for (std::size_t i = 0; i < k.count(); ++i) out.data[i] = k.real(i);
  return out;
}

const Attribute* find_attribute(const NodeProto& node, std::string_view name) {
  for (const auto& a : node.attributes) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

}  // namespace

Dense<double> read_weight(std::string_view file, const std::string& name,
                          const std::string& directory) {
  const auto model = read_model(file);
  for (auto message : model.initializers) {
    const auto tensor = read_tensor(message);
    if (tensor.name == name) return to_dense(read_known(tensor, directory));
  }
  for (auto message : model.nodes) {
    const auto node = read_node(message);
    if (node.outputs.empty() || node.outputs[0] != name) continue;
    const auto* value = find_attribute(node, "value");
    if (node.op == "Constant" && value != nullptr) {
      return to_dense(read_known(read_tensor(value->tensor)));
    }
    if (node.op == "ConstantOfShape") {
      const auto sizes = read_weight(file, std::string(node.inputs.at(0)), directory);
      Shape shape;
      for (auto size : sizes.data) shape.push_back(static_cast<std::int64_t>(size));
      Dense<double> out(shape);
      const auto fill = value == nullptr ? 0 : read_known(read_tensor(value->tensor)).real(0);
      std::ranges::fill(out.data, fill);
      return out;
    }
    if (node.op == "ConstantFill") {
      const auto* written = find_attribute(node, "shape");
      Shape shape;
      for (auto size : written != nullptr ? written->ints : Sizes{}) shape.push_back(size);
      if (written == nullptr) {
        const auto sizes = read_weight(file, std::string(node.inputs.at(0)), directory);
        for (auto size : sizes.data) shape.push_back(static_cast<std::int64_t>(size));
      }
      Dense<double> out(shape);
      const auto* fill = find_attribute(node, "value");
      std::ranges::fill(out.data, fill == nullptr ? 0 : static_cast<double>(fill->f));
      return out;
    }
  }
  reject(fmt::format("the file does not contain '{}'", name));
}

bool is_onnx_file(const std::string& path) {
  std::string beginning(16, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(in.gcount()));
  return is_onnx(path, beginning);
}

bool is_onnx(const std::string& path, std::string_view beginning) {
  // A ModelProto usually begins with its ir_version: field 1, a number below 128.
  return path.ends_with(".onnx") ||
         (beginning.size() > 2 && beginning[0] == '\x08' && beginning[1] > 0 && beginning[1] < 32);
}

}  // namespace tandem::import
